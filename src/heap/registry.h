// All heaps there are: made on demand, parked when their thread ends, adopted by the next one.
#pragma once

#include "heap/heap.h"

namespace loft::registry {

// A parked heap, or a new one. nullptr without memory or when all ids are in use. The heap is the
// caller's until park.
Heap* adopt();

// The caller no longer uses the heap; it holds no lock of it.
void park(Heap* heap);

// For a heap, whose lock is held, that needs memory: looks at a few others. Of those that nobody
// owns, or whose threads do not come to it, takes in the messages, so that the slabs they free can
// be used again; from these, and from those that have more of the class than they need, takes a
// slab over for `heap` that has room. Never waits for a lock; of a heap that has messages, a held
// one is noted (Heap::stall).
struct Help {
  unsigned drained;  // heaps
  bool slab;         // whether `heap` has one more
};
Help help(Heap& heap, SizeClass size_class);

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
