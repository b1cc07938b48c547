#pragma once

#include <cstddef>

namespace loft::large {

// Makes committed pages read as zero, which `at` and `bytes` are multiples of. In a long range
// those that hold memory are cleared and keep it, which takes a fifth of what new ones do should
// the program touch them; a range that is mostly without memory is discarded.
void clear(void* at, size_t bytes);

}  // namespace loft::large
