// An allocator: what a thread allocates from, and what owns small and medium objects (2.1). Its
// thread alone calls it, but for its queue. At 2 KiB, so that the low eleven bits of its address
// say nothing (2.2). It is never destroyed: when its thread ends, another one takes it over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "batchit/collect.h"
#include "snmalloc/chunk_stack.h"
#include "snmalloc/medium.h"
#include "snmalloc/outgoing.h"
#include "snmalloc/remote_queue.h"
#include "snmalloc/small.h"

namespace snmalloc {

struct Tally {
  SwapCounts swaps;
  SendCounts sent;
  loft::Counter frees_remote;
  loft::Counter received;
  loft::Counter forwarded;
  loft::Counter batches;
  loft::Counter batch_objects;
  loft::Counter evictions;
};

class alignas(kAllocatorBytes) Allocator {
 public:
  Allocator(Outgoing::Bucket* buckets, Batch* places)
      : small_(this), outgoing_(this, buckets), cache_(places), medium_(this) {}

  LOFT_ALWAYS_INLINE void* allocate(size_t bytes) {
    look();
    if constexpr (kLeastObject > 16) bytes = bytes < kLeastObject ? kLeastObject : bytes;
    if (LOFT_LIKELY(bytes <= size_of_class(kSmallClasses - 1))) {
      return small_.allocate(class_of_size(bytes), tally_.swaps);
    }
    return allocate_more(bytes);
  }
  void* allocate_aligned(size_t alignment, size_t bytes);
  void release(void* p);

  // On every call (2.2).
  LOFT_ALWAYS_INLINE void look() {
    if (LOFT_UNLIKELY(incoming_.has_any())) take_in();
  }

  // Its thread ends: nothing stays behind.
  void rest();

  RemoteQueue& incoming() { return incoming_; }
  const Tally& tally() const { return tally_; }

  // The pool's (pool.cc).
  Allocator* next_in_pool = nullptr;
  Allocator* next_of_all = nullptr;

 private:
  void* allocate_more(size_t bytes);
  LOFT_NOINLINE void take_in();
  void receive(uintptr_t message);
  LOFT_NOINLINE void release_remote(uintptr_t object, Allocator* owner, size_t bytes, bool small);
  void collect(uintptr_t object);
  void dispatch(const Batch& batch);
  void flush();

  RemoteQueue incoming_;
  SmallHeap small_;
  Outgoing outgoing_;
  BatchCache cache_;
  Tally tally_;
  MediumHeap medium_;
};
static_assert(sizeof(Allocator) == kAllocatorBytes);

// Of an object in a superslab or a medium slab, whoever owns it.
inline size_t size_of_object(uintptr_t object, ChunkKind kind) {
  return size_of_class(kind == ChunkKind::super() ? SmallHeap::class_of(object)
                                                  : MediumHeap::class_of(object));
}

}  // namespace snmalloc
