#pragma once

#include <cstddef>

namespace loft::large {

// Makes committed pages read as zero; `at` and `bytes` are multiples of the page size. In a long
// range, pages that hold memory are cleared and keep it: should the program touch them, that takes
// a fifth of the time of new pages. A range mostly without memory is discarded.
void clear(void* at, size_t bytes);

}  // namespace loft::large
