// Large objects: each has a span of its own and is rounded to pages, not to a power of two. A freed
// object stays resident in the span lists, so that the next of its size needs no system call. Pages
// behind its end, up to the end of its last granule, may be resident, too: the limits therefore
// count granules. Any thread may call any function, but no two calls may use one object at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/large_object.h"

namespace loft::large {

// Unused descriptors of one thread, so that objects come and go without a lock for them. Each is
// marked as kept and linked by its base. All zero means none.
struct Descriptors {
  Large* first;
  unsigned count;
};

// Allocates `asked` bytes. `alignment`: a power of two. nullptr without memory. *zero: whether
// every byte is known to read as zero, as in fresh and purged pages. `spare`: the thread's unused
// descriptors, if any; allocate takes one from there, release puts one there.
void* allocate(size_t asked, size_t alignment, bool* zero, Descriptors* spare = nullptr);

void release(Large* object, Descriptors* spare = nullptr);

// Returns all of them to the metadata.
void release_descriptors(Descriptors* spare);

// How many granules an object of `bytes` takes.
inline size_t granules_for(size_t bytes) { return round_up(bytes, kGranule) >> kGranuleLog; }

// For hardened/guarded.cc: an object's bytes in the statistics, 0 before it is made and when it is
// gone.
void account(size_t before, size_t after);

// Resizes the object to `asked` bytes, in place or by moving its pages. Returns its address.
// nullptr, with the object unchanged, if the caller has to copy.
void* resize(Large* object, size_t asked);

// The same in place alone: into free pages behind it, or without its last pages.
void* expand(Large* object, size_t asked);

struct LargeTotals {
  size_t bytes;        // in use
  size_t allocations;  // ever made
  size_t cache_hits;   // of these, on pages still resident
  size_t resizes;      // to another length in pages, without a copy
  size_t moves;        // of these, to another place
};
LargeTotals totals();

}  // namespace loft::large
