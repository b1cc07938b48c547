// The room of the policy `keeper` (NextGen-Malloc): a thread of loft's own that works ahead for the
// others. It fills magazines before they are asked for, and takes flushed ones home, where that
// pays (room/magazines.h). It is never needed for progress.
#pragma once

namespace loft::room {

// Called once, when the library is loaded and the options are read. Under the policy `keeper`, a
// room is started from now on by a slow path that finds it worth its while.
void enable();

// The room's thread ends, and nobody starts another in this process: its first thread is about to
// end.
void leave();

// The room's thread ends, unless the program has others that it may serve; another may be started
// later. For a thread that ends.
void pause();

// Processor time that the room's thread has had, in nanoseconds; 0 without one.
unsigned long long time_ns();

}  // namespace loft::room
