// Where a bin whose array can grow no more puts it: full arrays of free objects, each swapped for
// an empty one and back as a whole (the magazines of Bonwick and Adams, USENIX 2001). What a
// program frees and soon allocates again, by the ten thousand, then need not pass through its
// slabs, and nothing is copied. Arrays are linked through their null slots; emptied ones stay with
// the thread, for any class: they are still in its core's cache.
#pragma once

#include "cache/thread.h"

namespace loft::depot {

// Swaps the bin's full array for an empty one. False without memory.
bool stash(Thread* thread, SizeClass size_class);

// Swaps the bin's empty array for a full one, of which there is one.
void take(Thread* thread, SizeClass size_class);

// Takes a full array out, for the caller to empty it and keep it. nullptr if there is none.
void** remove(Thread* thread, SizeClass size_class);
void keep(Thread* thread, void** slots);

// Gives the empty arrays back.
void release_spares(Thread* thread);

}  // namespace loft::depot
