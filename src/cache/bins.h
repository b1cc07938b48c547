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

// Called when a bin is empty, which is the caller's own (core::own). Refills it and pops one
// object; nullptr without memory. The thread has a heap.
void* refill(Thread* thread, Request request);

// One object, straight from a heap that the caller shares or whose bin has no array.
void* take_one(Heap* heap, Request request);

// Called when the fast path cannot push: the bin is full, has no capacity yet, or is under watch,
// as every bin is for its first pushes, which are checked one by one, unless an earlier thread of
// the block has seen to that. So a program that frees an interior pointer, or the same object
// twice, is caught at once where it does little of either, and the fast path pays nothing. False if
// no memory could be had for the bin's array, or the bin not be made the caller's own.
bool push_slow(Thread* thread, SizeClass size_class, void* p);

// Whether push_slow would find room without making some.
inline bool has_room(const Thread* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  return state.slots != nullptr && thread->bins[size_class].top < state.slots + state.capacity;
}

// Gives all objects of all bins back.
void flush_all(Thread* thread);

// --- For magazines and depots, which take a bin's array whole. ---

struct Array {
  void** slots;
  uint16_t capacity;
};

// What the first array of a bin holds.
unsigned first_capacity(SizeClass size_class);

// How many objects the thread's own bin holds.
unsigned count(const Thread* thread, SizeClass size_class);

// Lets the thread's arrays of a class hold more, one of them `to` objects in place of `from`. False
// if they hold as much as they may.
bool charge(Thread* thread, SizeClass size_class, unsigned from, unsigned to);

void** make_array(unsigned capacity);  // nullptr without memory
void release_array_of(void** slots, unsigned capacity);

// Gives the bin another array, with `objects` objects in it, for its own.
Array exchange(Thread* thread, SizeClass size_class, Array array, unsigned objects);

// Puts up to `wanted` objects into slots[1], slots[2], ..., the ones that go out first on top.
// Under the heap's lock.
unsigned fill_array(Heap* heap, Request request, void** slots, unsigned wanted);

// Gives [objects, end) back to the heap, and those of other heaps by give_foreign. Under the heap's
// lock.
using GiveForeign = void (*)(void*, Entry);
void put_back(Heap* heap, SizeClass size_class, void** objects, void** end,
              GiveForeign give_foreign);

// ---

// How many objects a bin holds, read beside the running thread: about right.
unsigned held(const Thread* thread, SizeClass size_class);

// For the block's next thread, or its own that is about to wait. Gives all arrays back, or, unless
// memory is tight, all but small first ones: then every bin is empty; otherwise the last thread may
// have died in a fork, in the midst of anything.
void start_over(Thread* thread, bool keep_first_arrays);

}  // namespace bins
}  // namespace loft
