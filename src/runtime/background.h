// Purges memory that nobody uses. The calls that the program makes do it: a slow path of any thread
// looks now and then. A look purges an excess at once (space/unused.h), and does a share of a round
// over all heaps (runtime/round.h): it goes on where the last look ended. A thread that does little
// makes no slow path: while something waits to be purged, looks ask the next free of each thread to
// look (bins::ask). loft starts no thread for it by itself. Where the program asks for one (option
// `background`, loft_background_start), that thread makes the rounds instead, also while the
// program does nothing.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/look.h"
#include "base/macros.h"

namespace loft::background {

enum ThreadState : uint32_t {
  kNotYet,   // enable has not run: nobody makes rounds
  kNobody,   // there is no thread: looks make the rounds
  kRefused,  // the same, and none can start any more
  kTicking,  // the thread makes a round several times a second
  kAsleep,   // the thread has found nothing to do; a look wakes it
  kLeaving,  // the thread was told to end
};

// The thread sleeps on it. Relaxed: what a round reads and writes has its own locks.
extern LOFT_HIDDEN Atomic<uint32_t> state;

void look();

// For each slow path, with no lock held.
LOFT_ALWAYS_INLINE void look_after() {
  if (LOFT_UNLIKELY(--slow_paths_left == 0)) look();
}

// Set once, when the library is loaded, to a function of a floor above, which is called when the
// process's first thread ends by itself.
extern LOFT_HIDDEN Atomic<void (*)()> at_end_of_first_thread;

// Starts the thread, unless there is one. Returns 0, or an error's number: EPERM if the process's
// first thread has ended, for loft has no threads after that; EAGAIN if the system gives none now.
int start();

bool has_thread();

// Called once, when the library is loaded. Reads the limits of the control group. Slow paths look
// from now on, and the thread starts if the option says so.
void enable();

// The program has changed an option: the thread starts or ends. Does not read the group's limits
// again: that would open files while the program runs.
void options_changed();

}  // namespace loft::background
