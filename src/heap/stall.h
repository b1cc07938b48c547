// What a heap knows of one that could give it memory, and cannot be asked. A thread that is
// preempted in the midst of a refill holds its heap's lock for milliseconds, and until it runs
// again nobody can take in what is freed for the heap. Who finds that out, when it needs memory,
// keeps such objects for itself meanwhile: otherwise two threads that replace each other's objects
// of some KiB take tens of megabytes of new memory each time.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/lock.h"
#include "space/pagemap.h"

namespace loft {

// All relaxed: hints, of which a wrong answer costs an object a way round. Locks of heaps are there
// for ever. Whoever notes holds the lock of the heap whose Stall it is.
class Stall {
 public:
  // The lock of heap `id` was found held, `now` in nanoseconds. Of several the first is watched:
  // once the same hold is met again long after, the heap is taken to be stalled.
  void note(HeapId id, const os::Lock& lock, uint64_t now) {
    if (!is_held_still()) {
      id_.store(kNoHeap, memory_order_relaxed);
      lock_.store(&lock, memory_order_relaxed);
      hold_.store(lock.acquisitions(), memory_order_relaxed);
      since_ = now;
    } else if (lock_.load(memory_order_relaxed) == &lock && now - since_ >= kStalledNs) {
      id_.store(id, memory_order_relaxed);
    }
  }

  // Whether heap `id` was found stalled and its lock is held still, by the same hold.
  bool is_at(HeapId id) {
    if (LOFT_LIKELY(id_.load(memory_order_relaxed) != id)) return false;
    if (is_held_still()) return true;
    id_.store(kNoHeap, memory_order_relaxed);
    return false;
  }

 private:
  bool is_held_still() const {
    const os::Lock* lock = lock_.load(memory_order_relaxed);
    return lock != nullptr && lock->is_held() &&
           lock->acquisitions() == hold_.load(memory_order_relaxed);
  }

  // A refill of a thread that runs is over long before, and mostly what else takes the lock.
  static constexpr uint64_t kStalledNs = 100'000;

  Atomic<HeapId> id_{kNoHeap};
  Atomic<const os::Lock*> lock_{nullptr};  // the one that is watched
  Atomic<unsigned long> hold_{0};          // the number of its acquisitions when it was found
  uint64_t since_ = 0;                     // when that hold was met first
};

}  // namespace loft
