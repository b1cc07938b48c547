// Faults of programs that use what they must not: the handler of SIGSEGV and SIGBUS with
// hardened=guard. A fault that belongs to no sample goes to whoever had the signal before.
#pragma once

namespace loft::hard {

// Before the first sample. Signals that the program takes for itself later are the program's.
void catch_faults();

}  // namespace loft::hard
