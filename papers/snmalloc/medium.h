// Medium objects: slabs of one chunk with a stack of the free objects' indices (2.7). Of one
// allocator, whose thread alone calls it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snmalloc/chunk_header.h"
#include "snmalloc/slab_list.h"

namespace snmalloc {

struct SwapCounts;

//   free == the objects of `stack` from `head` on; it is in its class's list if and only if free
//   != 0
struct MediumSlab {
  static constexpr unsigned kMost = 256;  // the stack's 512 bytes

  ChunkHeader header;
  MediumSlab* next;
  MediumSlab* prev;
  uint16_t free;
  uint8_t head;
  uint8_t size_class;
  uint16_t stack[kMost];

  static constexpr size_t count(size_t size);
};
constexpr size_t MediumSlab::count(size_t size) { return (kChunk - sizeof(MediumSlab)) / size; }
static_assert(MediumSlab::count(size_of_class(kSmallClasses)) < MediumSlab::kMost);
static_assert(MediumSlab::count(size_of_class(kClasses - 1)) == 1);

class MediumHeap {
 public:
  explicit MediumHeap(Allocator* owner) : owner_(owner) {}

  void* allocate(unsigned size_class, SwapCounts& counts);  // nullptr without memory
  void take_back(uintptr_t object, SwapCounts& counts);
  bool has_free(unsigned size_class) const {
    return lists_[size_class - kSmallClasses].first() != nullptr;
  }

  static unsigned class_of(uintptr_t object) { return slab_of(object)->size_class; }

 private:
  static MediumSlab* slab_of(uintptr_t object) {
    return reinterpret_cast<MediumSlab*>(chunk_of(object));
  }
  SlabList<MediumSlab>& list_of(unsigned size_class) { return lists_[size_class - kSmallClasses]; }
  MediumSlab* open_slab(unsigned size_class, SwapCounts& counts);

  Allocator* owner_;
  // Under SNMALLOC_DECOMMIT=on the only one without objects, which is in its list all the same.
  MediumSlab* empty_ = nullptr;
  SlabList<MediumSlab> lists_[kClasses - kSmallClasses];
};

}  // namespace snmalloc
