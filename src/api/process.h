// loft's actions at the two ends of a process. It reads its options at load, and prints statistics
// at exit if the option `stats` says so.
#pragma once

#include <string_view>

namespace loft {

// A constructor that runs before the program's. Allocation works before it, with default options.
void process_starts();

// Changes an option while the program runs, and what holds its value elsewhere follows. Returns
// what loft_option_set does. The socket of the option `socket` stays where it is: its thread may be
// the caller.
int apply_option(std::string_view name, std::string_view value);

// The linker takes a member of libloft.a only if something refers to it; a constructor does not
// count. malloc.cc and loft.cc refer to process.cc by including this header.
[[gnu::used]] inline void (*const keep_process_hooks)() = process_starts;

}  // namespace loft
