// A lock of one word: a short spin, then sleep in the kernel. Zero-initialised is unlocked, so it
// works before any constructor has run. Not recursive.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/os.h"

namespace loft::os {

class Lock {
 public:
  // Acquire pairs with the release in unlock: what the last holder wrote is seen.
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

  // Somebody waits, or has waited, for the present holder. A hint.
  bool has_sleepers() const { return word_.load(memory_order_relaxed) == kHeldWithSleepers; }

  bool is_held() const { return word_.load(memory_order_relaxed) != kFree; }  // a hint

  unsigned long acquisitions() const { return acquisitions_.get(); }
  unsigned long waits() const { return waits_.get(); }  // of these, that found it held

  // Release publishes the holder's writes to the next one. The exchange also learns whether anybody
  // sleeps, in the same step in which the lock becomes free, so that no sleeper is forgotten.
  void unlock() {
    if (word_.exchange(kFree, memory_order_release) == kHeldWithSleepers) wake_one(&word_);
  }

  // By its holder, between two steps of long work: whoever sleeps on it has it first. Who was woken
  // needs a while to come, and a thread of lower priority may never: so long, and no longer, the
  // holder waits before it takes the lock again.
  void let_others() {
    if (LOFT_LIKELY(!has_sleepers())) return;
    const unsigned long before = acquisitions();
    unlock();
    for (int i = 0; i < kDozes && acquisitions() == before; ++i) doze();
    lock();
  }

  // After a fork, by the one that locked it before. In the child the others are gone, and nobody is
  // to be woken.
  void after_fork(bool child) {
    if (child) {
      reset();
    } else {
      unlock();
    }
  }

  // Only in the child of a fork: whoever held it is gone.
  void reset() { word_.store(kFree, memory_order_relaxed); }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kHeldWithSleepers = 2;
  static constexpr int kSpins = 100;  // about a microsecond: most holders are done by then
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
    // From here on the lock is taken in the state "with sleepers": a waker cannot know whether
    // others sleep still, and one needless wake is cheaper than a lost one.
    while (word_.exchange(kHeldWithSleepers, memory_order_acquire) != kFree) {
      wait_on_word(&word_, kHeldWithSleepers);
    }
  }

  Atomic<uint32_t> word_{kFree};
  Counter acquisitions_;  // these are written by the holder
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
