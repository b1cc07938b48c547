// All heaps there are: made on demand, parked when their thread ends, adopted by the next one.
#pragma once

#include "heap/heap.h"

namespace loft::registry {

// A parked heap, or a new one. nullptr without memory or when all ids are in use. The heap is the
// caller's until park.
Heap* adopt();

// The caller no longer uses the heap; it holds no lock of it.
void park(Heap* heap);

// The heap that threads without a block share, under its lock. nullptr without memory. Under
// owner=keeper it is the room's, which owns every slab, and that of all threads.
Heap* shared_heap();

// Under owner=keeper the shared heap. nullptr under the other owners, and before anybody had a
// heap.
Heap* room_heap();

// Lets heaps that nobody owns rest (Heap::rest). True if all of them have come to rest.
bool rest_parked();

// Heaps have ids 1 .. count().
unsigned count();
unsigned adoptions();
Heap* at(unsigned id);

// All locks of all heaps and of the registry are held between the two.
void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::registry
