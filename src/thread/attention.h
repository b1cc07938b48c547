// How the floors below the background thread notify it, without including it: a slow path was
// taken, or a thread has ended. The background thread sleeps on one word, `state`.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::attention {

enum State : uint32_t {
  kNobody,   // no background thread: slow paths do its work now and then, and start one if it may
             // run
  kRefused,  // no background thread, and none can start: slow paths do its work now and then
  kTicking,  // the background thread ticks by itself, several times a second
  kLeaving,  // the background thread was told to end
};

extern LOFT_HIDDEN Atomic<uint32_t> state;

// Both are set once, when the library is loaded, and called with no lock held. Slow paths of malloc
// call `unattended` while the state is kNobody or kRefused. A thread calls `on_thread_end` at its
// end, after it has given up its block.
extern LOFT_HIDDEN Atomic<void (*)()> unattended;
extern LOFT_HIDDEN Atomic<void (*)()> on_thread_end;

// For a slow path of malloc, with no lock held. Without a background thread, starts one or does
// some of its work.
inline void look_after() {
  const uint32_t now = state.load(memory_order_relaxed);
  if (LOFT_LIKELY(now != kNobody && now != kRefused)) return;
  if (auto* call = unattended.load(memory_order_relaxed); call != nullptr) call();
}

inline void thread_ended() {
  if (auto* call = on_thread_end.load(memory_order_relaxed); call != nullptr) call();
}

}  // namespace loft::attention
