// The keeper: a thread of loft's own that gives memory back while the program does nothing. It
// looks around several times a second, and ends when nothing is left to do, or with the program's
// other threads: a program of one thread has none, unless it asks (option `background`). It is
// never needed for progress: where there is none, slow paths do its work now and then.
#pragma once

namespace loft::keeper {

// Called once, when the library is loaded: reads the limits of the control group, and from now on a
// keeper may be started, by a slow path that finds the program grown enough. After room::enable.
void enable();

// The program has changed an option. Tails are given back, should there be a hard limit now; the
// group's limits are not read again, as that would open files while the program runs.
void options_changed();

}  // namespace loft::keeper
