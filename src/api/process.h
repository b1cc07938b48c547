// What loft does by itself at the two ends of a process: reads its options when it is loaded,
// prints statistics at exit if the option `stats` asks for them.
#pragma once

namespace loft {

// Runs as a constructor, before those of the program. Allocation works before it, with the default
// options.
void process_starts();

// A member of libloft.a that only runs by itself is linked only if somebody names it: malloc.cc and
// loft.cc do, by including this.
[[gnu::used]] inline void (*const keep_process_hooks)() = process_starts;

}  // namespace loft
