// The registry of heaps. A heap is created on demand, parked when its thread ends, and adopted by
// the next thread.
#pragma once

#include "heap/heap.h"

namespace loft::registry {

// Returns a parked heap, or a new one. nullptr without memory, or when all ids are in use. The
// caller owns the heap until park.
Heap* adopt();

// Ends the caller's use of the heap. The caller does not hold its lock.
void park(Heap* heap);

// The heap shared, under its lock, by threads without a block. nullptr without memory. Under
// owner=room it belongs to the room, owns every slab, and serves all threads.
Heap* shared_heap();

// The shared heap under owner=room. nullptr under other owners, and before the first use of a
// heap.
Heap* room_heap();

// Rests heaps without an owner (Heap::rest). True if all of them were at rest already.
bool purge_parked();

// Heap ids are 1 .. count().
unsigned count();
unsigned adoptions();
Heap* at(unsigned id);

// The locks of the registry and of all heaps are held between these two calls.
void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::registry
