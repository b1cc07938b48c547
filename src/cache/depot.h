// The depot of a bin whose array has the maximum length: full arrays of free objects, each swapped
// as a whole for an empty array and back (the magazines of Bonwick and Adams, USENIX 2001). A
// program that frees objects and soon allocates them again, by the ten thousand, then bypasses its
// slabs, and nothing is copied. Arrays are linked through their null slots. Empty arrays stay with
// the thread, for any class, because they are still in its core's cache.
#pragma once

#include "cache/thread.h"

namespace loft::depot {

// Swaps the bin's full array for an empty one. False without memory.
bool stash(Thread* thread, SizeClass size_class);

// Swaps the bin's empty array for a full one. The depot must hold one.
void take(Thread* thread, SizeClass size_class);

// `remove` takes a full array out of the depot; nullptr if there is none. The caller empties the
// array and hands it to `keep`.
void** remove(Thread* thread, SizeClass size_class);
void keep(Thread* thread, void** slots);

// Frees the empty arrays.
void release_spares(Thread* thread);

}  // namespace loft::depot
