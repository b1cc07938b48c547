// A one-word lock. It spins briefly, then sleeps in the kernel. Zero means unlocked, so it works
// before any constructor has run. It is not recursive.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/os.h"

namespace loft::os {

class Lock {
 public:
  // Acquire pairs with the release in unlock: the new holder sees the writes of the last one.
  void lock() {
    uint32_t expected = kFree;
    if (word_.compare_exchange_strong(expected, kHeld, memory_order_acquire,
                                      memory_order_relaxed)) {
      acquisitions_.add(1);
      return;
    }
    lock_contended();
    acquisitions_.add(1);
    waits_.add(1);
  }

  bool try_lock() {
    uint32_t expected = kFree;
    const bool taken =
        word_.compare_exchange_strong(expected, kHeld, memory_order_acquire, memory_order_relaxed);
    if (taken) acquisitions_.add(1);
    return taken;
  }

  // A hint: a thread waits, or has waited, for the present holder.
  bool has_sleepers() const { return word_.load(memory_order_relaxed) == kHeldWithSleepers; }

  bool is_held() const { return word_.load(memory_order_relaxed) != kFree; }  // a hint

  size_t acquisitions() const { return acquisitions_.get(); }
  size_t waits() const { return waits_.get(); }  // acquisitions that found the lock held

  // Release publishes the holder's writes to the next holder. One exchange both frees the lock and
  // reads whether a thread sleeps, so no sleeper is missed.
  void unlock() {
    if (word_.exchange(kFree, memory_order_release) == kHeldWithSleepers) wake_one(&word_);
  }

  // Called by the holder between two steps of long work. If a thread sleeps on the lock, it gets
  // the lock first. A woken thread takes a while to run, and one of lower priority may never run.
  // The holder therefore waits at most kDozes dozes for another acquisition, then locks again.
  void let_others() {
    if (LOFT_LIKELY(!has_sleepers())) return;
    const size_t before = acquisitions();
    unlock();
    for (int i = 0; i < kDozes && acquisitions() == before; ++i) doze();
    lock();
  }

  // Called after a fork by the thread that locked it before. The child has no other threads, so
  // there is nobody to wake.
  void after_fork(bool child) {
    if (child) {
      reset();
    } else {
      unlock();
    }
  }

  // Only in the child of a fork, where the holder no longer exists.
  void reset() { word_.store(kFree, memory_order_relaxed); }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kHeldWithSleepers = 2;
  static constexpr int kSpins = 100;  // about a microsecond: most holders have unlocked by then
  static constexpr int kDozes = 4;    // longer than a wake-up takes

  void lock_contended() {
    for (int i = 0; i < kSpins; ++i) {
      pause_briefly();
      uint32_t expected = kFree;
      if (word_.load(memory_order_relaxed) == kFree &&
          word_.compare_exchange_strong(expected, kHeld, memory_order_acquire,
                                        memory_order_relaxed)) {
        return;
      }
    }
    // From here on this thread takes the lock as kHeldWithSleepers. It cannot know whether others
    // still sleep, and a needless wake-up is cheaper than a lost one.
    while (word_.exchange(kHeldWithSleepers, memory_order_acquire) != kFree) {
      wait_on_word(&word_, kHeldWithSleepers);
    }
  }

  Atomic<uint32_t> word_{kFree};
  Counter acquisitions_;  // both counters are written by the holder
  Counter waits_;
};

class Guard {
 public:
  explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace loft::os

// The lock on the C library's list of open streams. glibc's fork takes it after the handlers of
// pthread_atfork, and so after loft's locks. That order can deadlock: a flush of all streams holds
// the list's lock while it waits for one stream, and the holder of that stream may wait for memory.
// The forking thread therefore takes the list's lock before loft's locks. glibc keeps the same
// order with its own malloc.

namespace loft::os {

// Called around a fork by the forking thread: lock_streams before the first of loft's locks is
// taken, unlock_streams after the last one is released.
void lock_streams();
void unlock_streams(bool child);

}  // namespace loft::os
