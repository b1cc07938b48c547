// Objects above kSmallMax, or aligned to more: malloc and free of them, beyond the cache of one.
#pragma once

#include <cstddef>

#include "cache/bins.h"
#include "heap/large.h"
#include "space/pagemap.h"

namespace loft {

// nullptr and ENOMEM without memory. `alignment` is a power of two.
void* allocate_large(size_t size, size_t alignment, bool zeroed);

// Stops the program if no object is there. Keeps errno.
void free_large(Large* object);
void free_medium(void* p, Entry entry);

}  // namespace loft
