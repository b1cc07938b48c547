// A spinlock that counts, as pthread_spinlock_t. It has a way out, which an engine may close: after
// many turns it lets others run, because with more threads than processors a spin may keep the very
// holder off its processor.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/os.h"

namespace engine {

class SpinLock {
 public:
  // Acquire pairs with the release in unlock.
  void lock() {
    if (LOFT_UNLIKELY(held_.exchange(true, loft::memory_order_acquire))) wait();
    acquired_.add(1);
  }
  void unlock() { held_.store(false, loft::memory_order_release); }

  // In the child of a fork, which has no other thread.
  void reset() { held_.store(false, loft::memory_order_relaxed); }

  uint64_t acquired() const { return acquired_.get(); }
  uint64_t waits() const { return waits_.get(); }

  // Of all locks: whether they let others run. Relaxed: an engine chooses as the program starts,
  // and no wait needs to see it at once.
  static void let_others(bool may) { lets_others_.store(may, loft::memory_order_relaxed); }

 private:
  LOFT_NOINLINE void wait() {
    constexpr unsigned kTurns = 1000;
    // Looked at once: between two pauses the lock is the one word that another thread changes, and
    // the simulated machine ends a spin when that word's line is written.
    const bool lets_others = lets_others_.load(loft::memory_order_relaxed);
    for (unsigned turn = 1;; ++turn) {
      if (!held_.load(loft::memory_order_relaxed) &&
          !held_.exchange(true, loft::memory_order_acquire)) {
        break;
      }
      if (turn % kTurns == 0 && lets_others) {
        loft::os::doze();
      } else {
        loft::os::pause_briefly();
      }
    }
    waits_.add(1);
  }

  static inline constinit loft::Atomic<bool> lets_others_{true};

  loft::Atomic<bool> held_{false};
  loft::Counter acquired_;  // both are written by the holder
  loft::Counter waits_;
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace engine
