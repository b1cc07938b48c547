// A stall: a heap that could provide memory but cannot be drained. A thread preempted during a
// refill holds its heap's lock for milliseconds. Until it runs again, no other thread can receive
// objects freed for that heap. A thread that notices this when it needs memory keeps such objects
// meanwhile. Otherwise, two threads that replace each other's objects of a few KiB would take tens
// of megabytes of new memory each time.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/lock.h"
#include "space/pagemap.h"

namespace loft {

// All accesses are relaxed: these are hints, and a wrong answer only costs an object a detour.
// Locks of heaps are never destroyed. A caller of note holds the lock of the heap that has this
// Stall.
class Stall {
 public:
  // The lock of heap `id` was found held at `now`, in nanoseconds. The first such lock is watched.
  // If the same hold is seen again after kStalledNs, the heap counts as stalled.
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

  // Whether heap `id` was found stalled, and the same hold of its lock continues.
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

  // A refill by a running thread ends long before, and so do most other holds of the lock.
  static constexpr uint64_t kStalledNs = 100'000;

  Atomic<HeapId> id_{kNoHeap};
  Atomic<const os::Lock*> lock_{nullptr};  // the watched lock
  Atomic<size_t> hold_{0};                 // its number of acquisitions at the first look
  uint64_t since_ = 0;                     // time of the first look
};

}  // namespace loft
