// The tag behind each object of hardened=full, in the last eight bytes of its place. It says that
// the program has the object, how much of the place it asked for, and which call made it; and it is
// bound to the object's address and to secrets of the process. So a write beyond the object breaks
// it, and what is free has none.
//
//   place   [asked bytes | fence | tag 8]     fence: the bytes that were not asked for. Some have a
//                                              value that is checked as well
//   tag     mac, the upper 44 bits | marks, 20 bits: slack 16, made by 3, sampled 1
//   free    the place reads as zero, but for the tag, which is another value or zero
//
// A tag that a program writes by chance passes with a chance of 2^-44. The function is no
// cryptographic one: it withstands who can write, not who can read tags at will and write them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "cache/bins.h"

namespace loft::hard {

inline constexpr size_t kTagBytes = 8;
// A smaller place has no room for a tag and a message (remote/message.h).
inline constexpr size_t kLeastPlace = 32;
inline constexpr size_t kMostTagged = kSmallMax - kTagBytes;

struct Marks {
  uint32_t slack;  // bytes between the object and its tag
  Maker maker;
  bool sampled;
};

// Set before the first tag is made, and never changed: the tags of a fork's child are its parent's.
// Read-only (base/sealed.h).
struct Secrets {
  uint64_t place;
  uint64_t value;
  uint64_t fence;
};
extern LOFT_HIDDEN Secrets secrets;

inline uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline constexpr unsigned kMarkBits = 20;
inline constexpr uint64_t kMarkMask = (uint64_t{1} << kMarkBits) - 1;
inline constexpr uint64_t kFree = uint64_t{1} << kMarkBits;  // in place of marks

inline uint64_t mac_of(uintptr_t p, uint64_t value) {
  return mix(p ^ secrets.place, value ^ secrets.value);
}
inline uint64_t bits_of(Marks marks) {
  return marks.slack | uint64_t{static_cast<uint8_t>(marks.maker)} << 16 |
         uint64_t{marks.sampled} << 19;
}

inline uint64_t tag_of(uintptr_t p, Marks marks) {
  const uint64_t bits = bits_of(marks);
  return (mac_of(p, bits) & ~kMarkMask) | bits;
}
inline uint64_t free_tag_of(uintptr_t p) { return mac_of(p, kFree); }

// False if the tag is not one of an object that the program has at p.
inline bool read_tag(uintptr_t p, uint64_t tag, Marks* marks) {
  const uint64_t bits = tag & kMarkMask;
  if (LOFT_UNLIKELY(((mac_of(p, bits) ^ tag) & ~kMarkMask) != 0)) return false;
  *marks = {static_cast<uint32_t>(bits & 0xffff), static_cast<Maker>(bits >> 16 & 7),
            (bits >> 19 & 1) != 0};
  return true;
}

inline uint64_t load_tag(const void* at) {
  uint64_t tag;
  __builtin_memcpy(&tag, at, sizeof tag);
  return tag;
}
inline void store_tag(void* at, uint64_t tag) { __builtin_memcpy(at, &tag, sizeof tag); }

// The byte that each checked byte of a fence has. None is zero, which is what strays most.
inline uint64_t fence_of(uintptr_t p) {
  return ((p ^ secrets.fence) * 0x9E3779B97F4A7C15u >> 57 | 1) * 0x0101010101010101u;
}

// The fence of `slack` bytes in front of `end`: its first and its last eight bytes, or all of
// fewer. A write that runs on meets the tag.
inline void raise_fence(unsigned char* end, size_t slack, uint64_t bytes) {
  if (LOFT_LIKELY(slack < 8)) {
    if (slack == 0) return;
    const uint64_t mask = ~uint64_t{0} << (64 - 8 * slack);
    store_tag(end - 8, (load_tag(end - 8) & ~mask) | (bytes & mask));
    return;
  }
  store_tag(end - slack, bytes);
  store_tag(end - 8, bytes);
}
inline bool is_fence_whole(const unsigned char* end, size_t slack, uint64_t bytes) {
  if (LOFT_LIKELY(slack < 8)) {
    return slack == 0 || (load_tag(end - 8) ^ bytes) >> (64 - 8 * slack) == 0;
  }
  return ((load_tag(end - slack) ^ bytes) | (load_tag(end - 8) ^ bytes)) == 0;
}
// The same bytes read as zero.
inline void clear_fence(unsigned char* end, size_t slack) { raise_fence(end, slack, 0); }

}  // namespace loft::hard
