// An allocator: what a thread allocates from, and what owns small and medium objects (2.1). Its
// thread alone calls it, but for its queue. At 2 KiB, so that the low eleven bits of its address
// say nothing (2.2). It is never destroyed: when its thread ends, another one takes it over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "batchit/collect.h"
#include "engine/looks.h"
#include "snmalloc/chunk_stack.h"
#include "snmalloc/medium.h"
#include "snmalloc/outgoing.h"
#include "snmalloc/remote_queue.h"
#include "snmalloc/small.h"

namespace snmalloc {

// Where messages arrive: in one queue or, with BATCHIT_INBOX=class, in one for each class of small
// objects and one for all medium ones (snmalloc's issue 728 asks for it).
inline constexpr unsigned kQueues = kSmallClasses + 1;
static_assert(kQueues <= 64);
unsigned queue_of(uintptr_t message);

struct Tally {
  SwapCounts swaps;
  engine::Looks looks;
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
  // `queues`: kQueues if there is one for each class, for ever.
  Allocator(Outgoing::Bucket* buckets, Batch* places, RemoteQueue* queues)
      : small_(this), outgoing_(this, buckets), cache_(places), medium_(this), queues_(queues) {}

  LOFT_ALWAYS_INLINE void* allocate(size_t bytes) {
    if constexpr (kLeastObject > 16) bytes = bytes < kLeastObject ? kLeastObject : bytes;
    if (LOFT_LIKELY(bytes <= size_of_class(kSmallClasses - 1))) {
      const unsigned size_class = class_of_size(bytes);
      if (LOFT_UNLIKELY(goes_by_path() && !small_.has_free(size_class))) {
        look_for(size_class);
      } else {
        look();
      }
      return small_.allocate(size_class, tally_.swaps);
    }
    look();
    return allocate_more(bytes);
  }
  void* allocate_aligned(size_t alignment, size_t bytes);
  void release(void* p);

  // On every call (2.2). With a queue for each class nothing comes here: where there is an object
  // at hand nothing is taken in.
  LOFT_ALWAYS_INLINE void look() {
    if (LOFT_UNLIKELY(incoming_.has_any())) take_in();
  }

  // Its thread ends: nothing stays behind.
  void rest();

  RemoteQueue& incoming(unsigned queue = kQueues - 1) {
    return parameters.by_class ? queues_[queue] : incoming_;
  }
  template <class Act>
  void for_each_queue(Act act) {
    act(incoming_);
    for (unsigned queue = 0; parameters.by_class && queue < kQueues; ++queue) act(queues_[queue]);
  }
  const Tally& tally() const { return tally_; }

  // The pool's (pool.cc).
  Allocator* next_in_pool = nullptr;
  Allocator* next_of_all = nullptr;

 private:
  static bool goes_by_path() {
    return Config::kBatches && (parameters.adapts || parameters.by_class);
  }
  void* allocate_more(size_t bytes);
  LOFT_NOINLINE void take_in();
  LOFT_NOINLINE void look_for(unsigned size_class);
  void look_around();
  uint64_t take_from(RemoteQueue& queue, uint64_t most);
  uint64_t take_budget(RemoteQueue& queue);
  uint64_t take_all();
  void finish_look(uint64_t taken);
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
  RemoteQueue* queues_;
  unsigned next_queue_ = 0;  // that a free looks at
};
static_assert(sizeof(Allocator) == kAllocatorBytes);

// Of an object in a superslab or a medium slab, whoever owns it.
inline size_t size_of_object(uintptr_t object, ChunkKind kind) {
  return size_of_class(kind == ChunkKind::super() ? SmallHeap::class_of(object)
                                                  : MediumHeap::class_of(object));
}

}  // namespace snmalloc
