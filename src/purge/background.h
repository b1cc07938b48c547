// The background thread: loft's own thread, which purges memory while the program does nothing. It
// ticks several times a second. It ends when nothing is left to do, or with the program's other
// threads. A program of one thread has no background thread, unless it asks for one (option
// `background`). Progress never depends on the background thread: without one, slow paths do its
// work now and then.
#pragma once

namespace loft::background {

// Called once, when the library is loaded, after room::enable. Reads the limits of the control
// group. From now on, a slow path may start a background thread once the program is large enough.
void enable();

// The program has changed an option. Purges tails if there is a hard limit now. Does not read the
// group's limits again: that would open files while the program runs.
void options_changed();

}  // namespace loft::background
