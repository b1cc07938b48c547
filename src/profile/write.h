// The profile as a file, which libloft-inspect writes (inspect/save.cc).
#pragma once

#include "files/inspect.h"
#include "profile/site.h"

namespace loft::profile {

// What is known of a moment.
inspect::Source as_it_is(Moment moment);

// Writes the profile to `path`, in which %p stands for the number of the process: as lines of text
// if the name ends with .collapsed, in the format of pprof otherwise. Of the moment that the option
// profile names. Returns 0 or an error of the system; ELIBACC: there is no libloft-inspect. Any
// thread and signal handlers; takes no lock.
int write_to(const char* path);

// What the option profile_file asks for; a failure is reported in one line. The child of a fork
// puts its number before the file's name if that has no %p.
void write_at_exit();

// The same in a file beside that: with the word signal-1, signal-2 and so on in its name.
void write_on_signal();

// The same with the word refused, when memory was refused: for the first time, and whenever half as
// much again is in use as the last time. No lock of loft may be held: this may take long.
void write_refused();

// When samples begin, before a fork can be made: notes the process, and keeps some address space
// for write_refused.
void get_ready();

}  // namespace loft::profile
