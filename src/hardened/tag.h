// The tag behind each object of hardened=full, in the last eight bytes of its cell. It says that
// the program has the object, how much of the cell it asked for, and which call made it; and it is
// bound to the object's address and to secrets of the process. So a write beyond the object breaks
// it, and what is free has none.
//
//   cell    [asked bytes | fence | tag 8]     fence: the bytes that were not asked for. Some have a
//                                              value that is checked as well
//   tag     key + note * code, 56 bits | 0    note, 20 bits: slack 16, made by 3, sampled 1
//           key = address * value + offset
//   free    the cell reads as zero, but for the tag, which has the note kFree, or is zero
//
// `value`, `offset` and `code` are secrets; value and code are odd, and code's inverse finds the
// note. A tag that is written over by chance passes with a chance of 2^-44, one that was copied
// from another cell with 2^-36. The last byte is zero: a string that has no end ends there. The
// function is no cryptographic one: it withstands who can write, not who can read tags and write
// them. Its merit is that three multiplications check a tag and the one before it, and make
// another.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "cache/bins.h"

namespace loft::hardened {

inline constexpr size_t kTagBytes = 8;
// A smaller cell has no room for a tag and a message (remote/message.h).
inline constexpr size_t kLeastPlace = 32;
inline constexpr size_t kMostTagged = kSmallMax - kTagBytes;

struct Marks {
  uint32_t slack;  // bytes between the object and its tag
  Maker maker;
  bool sampled;
};

inline constexpr int kTagShift = 8;
inline constexpr unsigned kMakerShift = 16;
inline constexpr uint64_t kSlackMask = (uint64_t{1} << kMakerShift) - 1;
inline constexpr uint64_t kFree = uint64_t{1} << 20;  // above all notes of objects

// Set before the first tag is made, and never changed: the tags of a fork's child are its parent's.
// Read-only (base/sealed.h).
// All but `inverse` are multiples of 2^8, and so is what is reckoned with them: 56 bits, in the
// upper ones of a word.
struct Secrets {
  uint64_t offset;
  uint64_t value;
  uint64_t code;
  uint64_t inverse;  // code * inverse == 2^8
  uint64_t free;     // kFree * code
};
extern LOFT_HIDDEN Secrets secrets;

inline uint64_t key_of(uintptr_t p) { return p * secrets.value + secrets.offset; }
inline uint64_t key_of(const void* p) { return key_of(reinterpret_cast<uintptr_t>(p)); }
// From the key of an address to that of the one `bytes` bytes further.
inline uint64_t key_step(size_t bytes) { return bytes * secrets.value; }

inline uint64_t note_of(Marks marks) {
  return marks.slack | uint64_t{static_cast<uint8_t>(marks.maker)} << kMakerShift |
         uint64_t{marks.sampled} << 19;
}
inline Marks marks_in(uint64_t note) {
  return {static_cast<uint32_t>(note & kSlackMask), static_cast<Maker>(note >> kMakerShift & 7),
          (note >> 19 & 1) != 0};
}

inline uint64_t tag_for(uint64_t key, uint64_t note) {
  return (key + note * secrets.code) >> kTagShift;
}
inline uint64_t free_tag_for(uint64_t key) { return (key + secrets.free) >> kTagShift; }
// Below kFree: that of an object. kFree: of a free cell. Anything else was never made.
inline uint64_t note_in(uint64_t key, uint64_t tag) {
  return std::rotr((std::rotl(tag, kTagShift) - key) * secrets.inverse, kTagShift);
}

inline uint64_t tag_of(uintptr_t p, Marks marks) { return tag_for(key_of(p), note_of(marks)); }
inline uint64_t free_tag_of(uintptr_t p) { return free_tag_for(key_of(p)); }

// False if the tag is not one of an object that the program has at p.
inline bool read_tag(uintptr_t p, uint64_t tag, Marks* marks) {
  const uint64_t note = note_in(key_of(p), tag);
  if (LOFT_UNLIKELY(note >= kFree)) return false;
  *marks = marks_in(note);
  return true;
}

// The tag of a cell, which lies at a multiple of eight. Relaxed: who frees the object behind it,
// and the scan, look at it while another thread writes it. They have to see one of the tags that
// were there, and rely on nothing else that this thread has written.
using TagWord = uint64_t __attribute__((may_alias));
inline uint64_t load_tag(const void* at) {
  return __atomic_load_n(static_cast<const TagWord*>(at), __ATOMIC_RELAXED);
}
inline void store_tag(void* at, uint64_t tag) {
  __atomic_store_n(static_cast<TagWord*>(at), tag, __ATOMIC_RELAXED);
}

// Eight bytes anywhere. A processor may take them one by one: no other thread looks at them, or the
// tag behind them is 0 meanwhile.
inline uint64_t load_bytes(const void* at) {
  uint64_t bytes;
  __builtin_memcpy(&bytes, at, sizeof bytes);
  return bytes;
}
inline void store_bytes(void* at, uint64_t bytes) { __builtin_memcpy(at, &bytes, sizeof bytes); }

// The byte that each checked byte of a fence has. It is not zero, which is what strays most.
inline uint64_t fence_for(uint64_t key) { return (key >> 56 | 1) * 0x0101010101010101u; }
inline uint64_t fence_of(uintptr_t p) { return fence_for(key_of(p)); }

// The last `bytes` bytes of a word, fewer than eight. Two shifts, since one by 64 does nothing.
inline uint64_t last_bytes(size_t bytes) { return ~uint64_t{0} << 1 << (63 - 8 * bytes); }

// The fence of `slack` bytes in front of `end`: its first and its last eight bytes, or all of
// fewer. A write that runs on meets the tag.
inline void raise_fence(unsigned char* end, size_t slack, uint64_t bytes) {
  if (slack < 8) {
    const uint64_t mask = last_bytes(slack);
    store_bytes(end - 8, (load_bytes(end - 8) & ~mask) | (bytes & mask));
    return;
  }
  store_bytes(end - slack, bytes);
  store_bytes(end - 8, bytes);
}
inline bool is_fence_whole(const unsigned char* end, size_t slack, uint64_t bytes) {
  const uint64_t last = load_bytes(end - 8) ^ bytes;
  if (slack < 8) return (last & last_bytes(slack)) == 0;
  return ((load_bytes(end - slack) ^ bytes) | last) == 0;
}
// The same bytes read as zero.
inline void clear_fence(unsigned char* end, size_t slack) { raise_fence(end, slack, 0); }

// Zeros: looked for and written sixteen bytes at a time, in place of calls that cost more than the
// few words of a small object. Addresses and lengths are multiples of sixteen.

// Two words, which any processor has some way to treat as one.
using Pair = uint64_t __attribute__((vector_size(16), may_alias));

inline const Pair* pair_at(const void* from, size_t bytes) {
  return reinterpret_cast<const Pair*>(static_cast<const char*>(from) + bytes);
}

// 0 exactly if `bytes` bytes read as zero, which are some. The second form is for many.
LOFT_ALWAYS_INLINE uint64_t any_bit(const void* from, size_t bytes) {
  const Pair* at = pair_at(from, 0);
  const Pair* const end = pair_at(from, bytes);
  Pair all = *at;
  while (++at != end) all |= *at;
  return all[0] | all[1];
}
inline uint64_t any_bit_of_many(const void* from, size_t bytes) {
  const Pair* at = pair_at(from, 0);
  const Pair* const end = pair_at(from, bytes);
  Pair all{};
  for (; end - at >= 8; at += 8) {
    all |= at[0] | at[1] | at[2] | at[3];
    all |= at[4] | at[5] | at[6] | at[7];
  }
  for (; at != end; ++at) all |= *at;
  return all[0] | all[1];
}

// For more, memset is faster than its call is slow.
inline constexpr size_t kMostInline = 256;

LOFT_ALWAYS_INLINE void clear_few(void* from, size_t bytes) {
  auto* at = static_cast<Pair*>(from);
  const Pair* const end = pair_at(from, bytes);
  do {
    *at++ = Pair{};
    LOFT_FORGET(at);  // or the compiler makes the call of it
  } while (at != end);
}

}  // namespace loft::hardened
