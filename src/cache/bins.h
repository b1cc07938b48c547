// The slow side of a thread's bins: how large each may grow, and emptying one into the slabs.
//
// A bin starts small and doubles when refills and flushes alternate (the cache is what is too
// small) or when refills come in a row (a stream of allocations: fewer, larger refills), up to a
// byte budget for the class and for the thread; from then on it stashes full arrays in its depot. A
// bin that is found unused on a later slow path gives its objects back and starts over.
#pragma once

#include "cache/thread.h"
#include "space/pagemap.h"

namespace loft {

// What a call of malloc for a small object wants, in one register.
struct Request {
  SizeClass size_class;
  uint32_t asked;  // bytes
};

namespace bins {

// Every bin below is the caller's own: a thread's are, and a processor's while its lock is held and
// the bin's stack closed (core::own).

// Called when a bin is empty. Refills it and pops one object; nullptr without memory. The thread
// has a heap.
void* refill(Thread* thread, Request request);

// The same in two steps, for a bin without a depot. The first grows the bin if that is due, and
// returns how many objects to bring; 0 for a bin without an array. `hurry`: a stream takes an array
// as long as there may be.
unsigned plan_refill(Thread* thread, SizeClass size_class, bool hurry);
void* fill_bin(Thread* thread, Request request, unsigned wanted);

// One object, straight from a heap that the caller shares or whose bin has no array.
void* take_one(Heap* heap, Request request);

// Called when the fast path cannot push: the bin is full, has no capacity yet, or is under watch,
// as every bin is for its first pushes, which are checked one by one, unless an earlier thread of
// the block has seen to that. So a program that frees an interior pointer, or the same object
// twice, is caught at once where it does little of either, and the fast path pays nothing. A full
// bin that may not grow gives its `objects` oldest ones up by flush_oldest. False if no memory
// could be had for the bin's array.
using Flush = void (*)(Thread* thread, SizeClass size_class, unsigned objects);
bool push_slow(Thread* thread, SizeClass size_class, void* p, Flush flush_oldest);

// Gives the `objects` oldest objects of a bin back to their slabs, or to batches.
void flush(Thread* thread, SizeClass size_class, unsigned objects);

// Whether push_slow would find room without making some.
inline bool has_room(const Thread* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  return state.slots != nullptr && thread->bins[size_class].top < state.slots + state.capacity;
}

// Gives all objects of a bin, or of all bins, back.
void flush_class(Thread* thread, SizeClass size_class);
void flush_all(Thread* thread);

// Counts a refill. Now and then it is true: then one bin is due for a review, the next one each
// time.
bool review_due(Thread* thread);

// If nothing has moved in the bin since its last review, it gives its objects and its array back;
// true then. A busy one gives half of what it needed less of its depot. A busy bin that happens to
// stand where it stood loses a refill in some thousands; one that is `in_use` is being refilled,
// and always stands there.
bool review(Thread* thread, SizeClass size_class, bool in_use);

// --- For magazines (owner=keeper), which take a bin's array whole. ---

// Puts up to `wanted` objects into slots[1], slots[2], ..., the ones that go out first on top.
// Under the heap's lock.
unsigned fill_array(Heap* heap, Request request, void** slots, unsigned wanted);

// Gives [objects, end) back to the heap, and those of other heaps by give_foreign. Under the heap's
// lock.
using GiveForeign = void (*)(void*, Entry);
void put_back(Heap* heap, SizeClass size_class, void** objects, void** end,
              GiveForeign give_foreign);

// ---

// How many objects a bin holds whose top is at `top`, read beside the running thread: about right.
unsigned held(const Thread* thread, SizeClass size_class, void** top);

// For the block's next thread, or its own that is about to wait. Gives all arrays back, or, unless
// memory is tight, all but small first ones: then every bin is empty; otherwise the last thread may
// have died in a fork, in the midst of anything.
void start_over(Thread* thread, bool keep_first_arrays);

}  // namespace bins
}  // namespace loft
