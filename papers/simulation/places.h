// Where in its code an allocator waits: for lines from other processors, and for other processors.
// By chains of callers, with their cycles. For people who look for a cause, so it is off at first.
#pragma once

#include <cstdint>

namespace machine::places {

extern bool noting;

// The code that now runs on the simulated processor waited so many cycles: for this line, or, if it
// is 0, for another processor.
void note(uint64_t cycles, uintptr_t line);

// On standard error, with the lines of the source if there is an addr2line.
void print(unsigned count);

}  // namespace machine::places
