// Objects between inaccessible pages: the large ones of hardened=full, and the samples of
// hardened=guard. One is alone in its span: in front
// of it and behind its last page nothing can be read or written. When it is freed, its memory goes
// back to the system at once; its addresses stay inaccessible until some more objects were freed.
// Any thread may call any function, but no two calls may use one object at once.
#pragma once

#include <cstddef>

#include "heap/large.h"

namespace loft::large {

// Where in its pages an object lies. At the end, a write beyond it meets the guard, but for what
// its alignment leaves.
enum class At : uint8_t { kStart, kEnd };

// An object of `asked` bytes that reads as zero. `alignment`: a power of two, at most a page for
// At::kEnd. nullptr without memory. Where there are too many mappings, it has no guards, which is
// reported once.
void* allocate_guarded(size_t asked, size_t alignment, At at = At::kStart);

// All that cannot be read or written around it, with the object.
struct Around {
  uintptr_t base;
  uintptr_t end;
};
Around around(const Large& object);

// Gives up what lies behind the first `bytes` bytes, whole pages and fewer than there are: it is
// inaccessible from now on. False if the process may have no more mappings.
bool shrink_guarded(Large* object, size_t bytes);

// An object of allocate_guarded.
void release_guarded(Large* object);

// Whether an address is one of a freed object that is kept inaccessible. Without a lock, for a
// signal's handler: what changes meanwhile may be missed.
bool is_kept_closed(uintptr_t address);

// Gives up all addresses of freed objects.
void empty_guarded();

void prepare_fork_of_guarded();
void finish_fork_of_guarded(bool child);

}  // namespace loft::large
