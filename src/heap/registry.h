// The registry of heaps. A heap is created on demand, and abandoned when its thread ends. Whoever
// needs a heap next, a thread, a processor or the threads without a block, adopts the one abandoned
// last.
#pragma once

#include "base/options.h"
#include "heap/heap.h"

namespace loft::registry {

// Puts an abandoned heap, or a new one, into `holder` if that is null. Returns it; nullptr without
// memory, or when all ids are in use. The owner of `holder` owns the heap until abandon.
Heap* adopt(Heap*& holder);

// Ends the use of the heap in `holder`, and clears that. The caller does not hold the heap's lock.
void abandon(Heap*& holder);

// Both work under the registry's lock, which a fork takes. So in the child of a fork, each heap is
// either abandoned or in one holder.

// The heap shared, under its lock, by threads without a block. nullptr without memory. Under
// owner=shared it owns every slab, and serves all threads.
Heap* shared_heap();

bool is_shared(const Heap* heap);  // whether it is that one

// Whether all threads share that heap.
inline bool all_share() { return get(options.owner) == kOwnerShared; }

// The shared heap, if all_share(). Otherwise nullptr, as before the first use of a heap.
Heap* common_heap();

// The heap of sampled objects (medium::samples), which no thread owns and all use under its lock.
// Its runs never change owners. nullptr without memory.
Heap* samples_heap();

// Heap ids are 1 .. count().
unsigned count();
unsigned adoptions();
Heap* at(unsigned id);
// nullptr if no heap has this id.
inline Heap* find(unsigned id) { return id == kNoHeap || id > count() ? nullptr : at(id); }

// Keys all messages from now on (remote/key.h). When the library is loaded, before the program has
// a second thread; no thread has a block. `behind`: bytes at the end of objects that stay as they
// are.
void key_messages(size_t behind = 0);

// The locks of the registry and of all heaps are held between these two calls.
void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::registry
