// Large objects between inaccessible pages, for hardened=full. One is alone in its span: in front
// of it and behind its last page nothing can be read or written. When it is freed, its memory goes
// back to the system at once; its addresses stay inaccessible until some more objects were freed.
// Any thread may call any function, but no two calls may use one object at once.
#pragma once

#include <cstddef>

#include "large/large.h"

namespace loft::large {

// An object of `asked` bytes that reads as zero. `alignment`: a power of two. nullptr without
// memory. Where the process may have no more mappings, it has no guards, which is reported once.
void* allocate_guarded(size_t asked, size_t alignment);

// An object of allocate_guarded.
void release_guarded(Large* object);

// Gives up all addresses of freed objects.
void empty_guarded();

void prepare_fork_of_guarded();
void finish_fork_of_guarded(bool child);

}  // namespace loft::large
