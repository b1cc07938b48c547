// Small objects: superslabs, small slabs and their bump pointer-free lists (2.8). Of one allocator,
// whose thread alone calls it; what is static serves any thread that has an object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "snmalloc/chunk_header.h"
#include "snmalloc/links.h"
#include "snmalloc/slab_list.h"

namespace snmalloc {

struct SwapCounts;

inline constexpr unsigned kSlabs = 1u << (Config::kChunkLog - kSlabLog);

// The 64 bits of a small slab.
//
//   in use:  `used` objects are; `head` begins the free list, kFull if the slab is full; `link` is
//            the free object with the slab's node; class_or_next is the size class
//   free:    used is 0; class_or_next is the next free slab of the superslab, 0 if there is none
struct SlabMeta {
  Offset head;
  Offset link;
  uint16_t used;
  uint16_t class_or_next;
};
static_assert(sizeof(SlabMeta) == 8);

//   used == 2 * (small slabs in use) + (1 if the short slab is in use)
//   it is in its allocator's list if and only if a slab is free: used != kAllUsed
struct Superslab {
  static constexpr unsigned kAllUsed = 2 * (kSlabs - 1) + 1;

  ChunkHeader header;
  Superslab* next;
  Superslab* prev;
  uint16_t head;  // the first free small slab; 0 if there is none
  uint16_t used;
  SlabMeta meta[kSlabs];  // the first is the short slab's
};

// Where the first object of a slab begins: the last one ends with the slab. A short slab is a slab
// of which the objects that the meta-data covers are never freed.
constexpr size_t first_offset(size_t size, bool is_short) {
  const size_t before = is_short ? sizeof(Superslab) : 0;
  return kSlab - (kSlab - before) / size * size;
}
static_assert(first_offset(size_of_class(kSmallClasses - 1), true) < kSlab);

class SmallHeap {
 public:
  explicit SmallHeap(Allocator* owner) : owner_(owner) {
    for (uintptr_t& list : lists_) list = kEnd;
  }

  // nullptr without memory.
  LOFT_ALWAYS_INLINE void* allocate(unsigned size_class, SwapCounts& counts) {
    uintptr_t node = lists_[size_class];
    if (LOFT_UNLIKELY(node == kEnd)) {
      node = open_slab(size_class, counts);
      if (node == 0) return nullptr;
    }
    const uintptr_t slab = slab_of(node);
    SlabMeta& meta = meta_of(slab);
    const Offset at = static_cast<Offset>(meta.head & (kFull - kBump));
    meta.head = is_object(meta.head) ? Links::next(slab, at) : after(at, size_class);
    ++meta.used;
    // The object has the node, of the list's first slab.
    if (LOFT_UNLIKELY(meta.head == kFull)) remove_first(size_class, node);
    return reinterpret_cast<void*>(slab + at);
  }

  // Takes back a segment of a slab's free list, whose links are set but the tail's. `count`
  // objects, in constant time (BatchIt 2).
  LOFT_ALWAYS_INLINE void take_back(uintptr_t head, uintptr_t tail, unsigned count,
                                    SwapCounts& counts) {
    const uintptr_t slab = slab_of(head);
    SlabMeta& meta = meta_of(slab);
    meta.used = static_cast<uint16_t>(meta.used - count);
    if (LOFT_UNLIKELY(meta.used == 0)) return close_slab(slab, meta, counts);
    const Offset before = meta.head;
    Links::set_next(slab, offset_of(tail), before);
    meta.head = offset_of(head);
    if (LOFT_UNLIKELY(before == kFull)) insert_first(meta, tail);
  }
  void take_back(uintptr_t object, SwapCounts& counts) { take_back(object, object, 1, counts); }

  // Without the first, an object costs a slab; without the second, a slab costs a chunk.
  bool has_free(unsigned size_class) const { return lists_[size_class] != kEnd; }
  bool has_free_slab() const { return superslabs_.first() != nullptr; }

  static unsigned class_of(uintptr_t object) { return meta_of(slab_of(object)).class_or_next; }
  static Offset offset_of(uintptr_t object) { return static_cast<Offset>(object % kSlab); }
  static unsigned used(uintptr_t object) { return meta_of(slab_of(object)).used; }

 private:
  static constexpr uintptr_t kEnd = ~uintptr_t{0};  // its low bits are kFull (links.h)

  static Superslab* superslab_of(uintptr_t address) {
    return reinterpret_cast<Superslab*>(chunk_of(address));
  }
  static SlabMeta& meta_of(uintptr_t slab) {
    return superslab_of(slab)->meta[slab % kChunk >> kSlabLog];
  }
  // The bump pointer behind an object.
  static Offset after(Offset at, unsigned size_class) {
    const size_t next = at + size_of_class(size_class);
    return next == kSlab ? kFull : static_cast<Offset>(next | kBump);
  }

  // The node of the list of a class's slabs with free space, two words: previous, next.
  static Word& prev_of(uintptr_t node) { return word_at(node); }
  static Word& next_of(uintptr_t node) { return word_at(node + sizeof(Word)); }
  void insert_first(SlabMeta& meta, uintptr_t object);
  void remove_first(unsigned size_class, uintptr_t node);
  void remove(const SlabMeta& meta, uintptr_t slab);

  uintptr_t open_slab(unsigned size_class, SwapCounts& counts);  // returns its node; 0: no memory
  void close_slab(uintptr_t slab, SlabMeta& meta, SwapCounts& counts);
  Superslab* open_superslab(SwapCounts& counts);

  Allocator* owner_;
  SlabList<Superslab> superslabs_;
  uintptr_t lists_[kSmallClasses];
};

}  // namespace snmalloc
