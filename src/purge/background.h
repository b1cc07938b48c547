// The background thread: loft's own thread, which purges memory while the program does nothing. It
// ticks several times a second. It ends when nothing is left to do, or with the program's other
// threads. A program of one thread has no background thread, unless it asks for one (option
// `background`). Progress never depends on the background thread: without one, slow paths do its
// work now and then.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::background {

enum State : uint32_t {
  kNotYet,   // enable has not run: nothing is done
  kNobody,   // no background thread: slow paths do its work now and then, and start one if it may
             // run
  kRefused,  // no background thread, and none can start: slow paths do its work now and then
  kTicking,  // the background thread ticks by itself, several times a second
  kLeaving,  // the background thread was told to end
};

extern LOFT_HIDDEN Atomic<uint32_t> state;  // the background thread sleeps on it

// Starts a background thread if one may run. Otherwise, the first thread to arrive makes the tick
// that is due, and others do not wait.
void unattended();

// For a slow path, with no lock held. A thread that it starts allocates.
inline void look_after() {
  const uint32_t now = state.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(now == kNobody || now == kRefused)) unattended();
}

// Set once, when the library is loaded, to functions of a floor above. The first is called on slow
// paths while there is no background thread, with no lock held; the second when the process's first
// thread ends by itself. Relaxed: what they work with is constant by then, or has an order of its
// own.
extern LOFT_HIDDEN Atomic<void (*)()> at_slow_path;
extern LOFT_HIDDEN Atomic<void (*)()> at_end_of_first_thread;

// Called once, when the library is loaded, after room::enable. Reads the limits of the control
// group. From now on, a slow path may start a background thread once the program is large enough.
void enable();

}  // namespace loft::background
