// Numbers that nobody can foresee.
#pragma once

#include <cstddef>

namespace loft::files {

// From the system's generator; without it, as in the first moments of a machine or under a filter
// of system calls, from what the loader was given at the start of the process. Keeps errno.
void random_bytes(void* to, size_t bytes);

}  // namespace loft::files
