// What loft does by itself at the two ends of a process: reads its options when it is loaded,
// prints statistics at exit if the option `stats` asks for them.
#pragma once

namespace loft {

// Runs as a constructor, before those of the program. Allocation works before it, with the default
// options. malloc.cc and loft.cc name it so that a static link does not leave it out.
void process_starts();

}  // namespace loft
