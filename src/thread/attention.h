// What the floors below the keeper tell it, without knowing it: that a slow path was taken, and
// that a thread has ended. One word, which the keeper sleeps on.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::attention {

enum State : uint32_t {
  kNobody,   // no keeper: slow paths do its work now and then, and start one where one may be
  kRefused,  // none can be had any more: slow paths do its work now and then
  kTicking,  // it looks around by itself, several times a second
  kLeaving,  // it was told to end
};

extern LOFT_HIDDEN Atomic<uint32_t> state;

// Both are set once, when the library is loaded, and called while no lock is held: on slow paths of
// malloc while the state is kNobody or kRefused, and by a thread at its end, when it has no block
// any more.
extern LOFT_HIDDEN Atomic<void (*)()> unattended;
extern LOFT_HIDDEN Atomic<void (*)()> on_thread_end;

// On a slow path of malloc, at whose end no lock is held: gives whoever stands in for a keeper a
// turn, or starts one.
inline void look_after() {
  const uint32_t now = state.load(memory_order_relaxed);
  if (LOFT_LIKELY(now != kNobody && now != kRefused)) return;
  if (auto* call = unattended.load(memory_order_relaxed); call != nullptr) call();
}

inline void thread_ended() {
  if (auto* call = on_thread_end.load(memory_order_relaxed); call != nullptr) call();
}

}  // namespace loft::attention
