// A cell of a slab under hardened=full, from the moment when it is handed out to the moment when
// it may be handed out again. Its length is a multiple of sixteen, and so is its address.
//
// At any moment, for whoever looks from another thread (hardened/scan.h): if the tag is that of an
// object in use, the fence is whole. Where the fence is about to change, the tag is 0 before.
#pragma once

#include "base/atomic.h"
#include "base/peek.h"
#include "hardened/tag.h"

namespace loft::hardened {

// Whether `bytes` bytes read as zero: a multiple of eight, from an address that is one.
bool is_zero(const void* from, size_t bytes);

// Stop the program: over a free cell that was written to, and over what lies behind the object at
// p, which `call` found.
[[noreturn]] void report_written(const void* p);
[[noreturn]] void report_damage(const char* call, const void* p);

// Stops the program if the free cell at p was written to.
void check_unwritten(const void* p, size_t bytes);

inline constexpr size_t kMostFew = kMostInline;

inline unsigned char* tag_at(void* p, size_t bytes) {
  return static_cast<unsigned char*>(p) + (bytes - kTagBytes);
}
inline const unsigned char* tag_at(const void* p, size_t bytes) {
  return static_cast<const unsigned char*>(p) + (bytes - kTagBytes);
}

// Makes the free cell of `bytes` bytes at p an object of `asked`. Stops the program if something
// was written there since it was freed. kFew: the cell has at most kMostFew bytes.
template <bool kFew = false>
LOFT_ALWAYS_INLINE void* hand_out(void* p, size_t bytes, size_t asked, Maker maker, bool sampled) {
  const uint64_t key = key_of(p);
  unsigned char* const end = tag_at(p, bytes);
  const size_t pairs = bytes - sizeof(Pair);
  const uint64_t contents =
      (kFew ? any_bit(p, pairs) : any_bit_of_many(p, pairs)) | load_bytes(end - kTagBytes);
  const uint64_t tag = load_tag(end);
  if (LOFT_UNLIKELY((contents | (tag ^ free_tag_for(key))) != 0)) {
    if (contents != 0 || tag != 0) report_written(p);  // without a tag: it was never used
  }
  const auto slack = static_cast<uint32_t>(bytes - kTagBytes - asked);
  const uint64_t fence = fence_for(key);
  if (slack < 8) {
    store_bytes(end - 8, fence & last_bytes(slack));  // what is there reads as zero
  } else {
    store_bytes(end - slack, fence);
    store_bytes(end - 8, fence);
  }
  compiler_fence();
  store_tag(end, tag_for(key, note_of({slack, maker, sampled})));
  return p;
}

// The cell before the one at p, or the object in it, ends with its tag: of one in use, of a free
// one, or none yet. `step`: from that cell to p. False also for objects from before the start.
LOFT_ALWAYS_INLINE bool is_tagged_before(const void* p, uint64_t key, uint64_t step) {
  const uint64_t tag = peek(static_cast<const uint64_t*>(p)[-1]);  // of another thread, it may be
  return LOFT_LIKELY(note_in(key - step, tag) <= kFree) || tag == 0;
}

// Makes an object a free cell. `key`: of its address.
template <bool kFew = false>
LOFT_ALWAYS_INLINE void clear_cell(void* p, size_t bytes, uint64_t key) {
  unsigned char* const end = tag_at(p, bytes);
  store_tag(end, 0);
  compiler_fence();
  store_bytes(end - kTagBytes, 0);
  if constexpr (kFew) {
    clear_few(p, bytes - sizeof(Pair));
  } else {
    __builtin_memset(p, 0, bytes - sizeof(Pair));
  }
  compiler_fence();
  store_tag(end, free_tag_for(key));
}

// Takes the object at p back: checks its fence and the tag before it, and clears it. Stops the
// program if one of them is damaged. `first`: no cell lies before p.
void take_back(const char* call, void* p, size_t bytes, Marks marks, bool first);

// False if the program has no object with a tag at p.
inline bool is_object(const void* p, size_t bytes, Marks* marks) {
  return read_tag(reinterpret_cast<uintptr_t>(p), load_tag(tag_at(p, bytes)), marks);
}

// Stops the program over `call` of p, where none is.
[[noreturn]] void report_none(const char* call, const void* p, size_t bytes);

// Gives the object another length, for `call`. Stops the program if its fence is damaged.
void resize(const char* call, void* p, size_t bytes, size_t asked, Marks before);

}  // namespace loft::hardened
