// A thread's heap: a queue of slabs for each size class. It is never destroyed: when its thread
// ends it goes to a pool, and the next thread has it with its slabs (pool.h). So a slab's heap is
// the same for life, and other threads may use its address as long as they have an object of it.
#pragma once

#include "pages/batches.h"
#include "pages/slab.h"

namespace engine::pages {

// The slabs that their heap watches: those that may have free objects, and no others but for the
// first, which has run empty unnoticed.
class Queue {
 public:
  Slab* first() const { return first_; }
  bool has_one() const { return first_ == last_; }
  void push_front(Slab* slab);
  void push_back(Slab* slab);
  void remove(Slab* slab);
  void forget() { first_ = last_ = nullptr; }

 private:
  Slab* first_ = nullptr;
  Slab* last_ = nullptr;
};

class alignas(64) Heap {
 public:
  explicit Heap(loft::HeapId number) : id(number) {}

  void* allocate(loft::SizeClass c) {
    Slab* const slab = queues_[c].first();
    if (LOFT_LIKELY(slab != nullptr && slab->free != nullptr)) return slab->take();
    return allocate_slowly(c);
  }

  // An object of a slab of any heap.
  void release(Slab* slab, Object* p, bool is_mine) {
    if (LOFT_LIKELY(is_mine)) return release_mine(slab, p);
    batches.add(slab, p, tally);
  }

  // Receives all messages, and gives empty slabs back.
  void clear();

  // For the child of a fork, which rebuilds the queues: fork.cc.
  void forget_queues() {
    for (Queue& queue : queues_) queue.forget();
  }
  void readopt(Slab* slab);

  const loft::HeapId id;
  Heap* next = nullptr;         // of all, for ever
  Heap* next_pooled = nullptr;  // under the pool's lock
  Batches batches;
  Tally tally;

  // Objects of slabs that are not watched, one for each notice (3.1), or batches. Others write it.
  alignas(64) loft::Atomic<Object*> delayed{nullptr};

 private:
  void* allocate_slowly(loft::SizeClass c);
  void release_mine(Slab* slab, Object* p) {
    slab->put(p);
    settle(slab);
  }
  // Objects have come home.
  void settle(Slab* slab) {
    if (LOFT_UNLIKELY(!slab->watched)) watch(slab);
    if (LOFT_UNLIKELY(slab->used == 0)) retire(slab);
  }
  void drain();
  void watch(Slab* slab);
  bool unwatch(Slab* slab);
  void retire(Slab* slab);
  Slab* make_slab(loft::SizeClass c);
  void destroy(Slab* slab);
  uint64_t next_key();

  alignas(64) Queue queues_[loft::kSizeClasses];
  uint64_t keys_ = 0;
};

}  // namespace engine::pages
