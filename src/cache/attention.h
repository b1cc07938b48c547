// What the floors below the keeper tell it, without knowing it: that somebody is awake again, and
// that the program has grown enough for a keeper to pay. One word, which the keeper sleeps on.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/os.h"

namespace loft::attention {

enum State : uint32_t {
  kNobody,   // no keeper yet, or none any more in this process (fork)
  kRefused,  // none can be had: slow paths do its work now and then
  kTicking,  // it looks around by itself, several times a second
  kAsleep,   // until it is woken: everybody was asleep, and nothing was left to give back
};

extern LOFT_HIDDEN Atomic<uint32_t> state;

// Called on slow paths of malloc now and then while the state is kNobody or kRefused; no lock is
// held. Set once, when the library is loaded.
extern LOFT_HIDDEN Atomic<void (*)()> unattended;

// On a slow path of malloc, at whose end no lock is held: gives whoever stands in for a keeper a
// turn, or starts one.
inline void look_after() {
  const uint32_t now = state.load(memory_order_relaxed);
  if (LOFT_LIKELY(now != kNobody && now != kRefused)) return;
  if (auto* call = unattended.load(memory_order_relaxed); call != nullptr) call();
}

// A thread began or woke up, or has left memory behind without that: done before. The fence pairs
// with the keeper's, between its store of kAsleep and its last look: one of the two sees the other,
// so nothing is slept over. The exchange lets one of many wake the keeper; relaxed, as the futex
// orders nothing that anybody relies on.
inline void raise() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (LOFT_LIKELY(state.load(memory_order_relaxed) != kAsleep)) return;
  uint32_t expected = kAsleep;
  if (state.compare_exchange_strong(expected, kTicking, memory_order_relaxed)) {
    os::wake_one(&state);
  }
}

}  // namespace loft::attention
