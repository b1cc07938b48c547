// What bsd_memory.cc and the file of one system ask of each other.
#pragma once

#include <cstddef>

#include "os/posix_calls.h"

namespace loft::os {

// mmap, of private memory without a file. MAP_FAILED and errno without success.
void* map(void* at, size_t bytes, int protection, int flags);

// Whether the program has more rights than the user who started it.
bool has_more_rights();

}  // namespace loft::os
