// The room of owner=room (NextGen-Malloc): a thread of loft's own that works ahead of the others.
// Where that pays, it fills magazines before they are requested, and returns flushed objects to
// their slabs (room/magazines.h). No thread depends on it for progress.
#pragma once

#include "room/magazines.h"

namespace loft::room {

// Called once, at load, after the options are read. Under owner=room, a slow path may start the
// room's thread from now on, once the program has made enough refills.
void enable();

// Starts the room's thread if the program has made enough refills, and has other threads. For a
// slow path, with no lock held: starting a thread allocates.
void start();
inline void look_after() {
  if (LOFT_UNLIKELY(state.load(memory_order_relaxed) == kNobody)) start();
}

// Ends the room's thread for good: the first thread of the process is about to end.
void leave();

// Called when a thread of the program ends. Ends the room's thread unless the program has two or
// more threads left, or background=on. A later slow path may start another.
void pause();

// Processor time of the room's thread, in nanoseconds; 0 without a thread.
unsigned long long time_ns();

}  // namespace loft::room
