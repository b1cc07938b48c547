// The arrays of slots behind bins: their lengths, their exchange for others, the depots of full
// ones, and what all caches may hold together. An array counts against the thread's budget by its
// capacity in bytes, not by its contents.
#pragma once

#include "cache/thread_cache.h"
#include "os/limits.h"

namespace loft::bins {

inline constexpr unsigned kMaxCapacity = kMostSlots - 1;
inline constexpr uint8_t kWatchedPushes = 32;  // the first pushes into a bin are checked one by one

// The limit on the capacity of all bins of a thread, in bytes: its share of what all may have.
size_t budget();

// The capacity of a bin's first array.
unsigned first_capacity(SizeClass size_class);

// The number of objects in a bin of the calling thread.
unsigned count(const ThreadCache* thread, SizeClass size_class);

// Sets the bin's limit, the highest slot that a push may fill. A watched bin has no such slot, so
// each push takes the slow path and is checked. A bin that is asked to look stays so.
void set_limit(Bin& bin, const BinState& state);

// Gives the bin an array of the next size. False (a) at the maximum size, (b) over the budget, or
// (c) without memory.
bool grow(ThreadCache* thread, SizeClass size_class);

// Gives the bin another array of the same length, which holds `objects` objects.
void exchange(ThreadCache* thread, SizeClass size_class, void** slots, unsigned objects);

// Frees the array of an empty bin.
void release_array(ThreadCache* thread, SizeClass size_class);

void** make_array(unsigned capacity);  // nullptr without memory
void release_array_of(void** slots, unsigned capacity);

}  // namespace loft::bins

// The depot of a bin whose array has the maximum length: full arrays of free objects, each swapped
// as a whole for an empty array and back (the magazines of Bonwick and Adams, USENIX 2001). A
// program that frees objects and soon allocates them again, by the ten thousand, then bypasses its
// slabs, and nothing is copied. Arrays are linked through their null slots. Empty arrays stay with
// the thread, for any class, because they are still in its core's cache.

namespace loft::depot {

// Swaps the bin's full array for an empty one. False without memory.
bool stash(ThreadCache* thread, SizeClass size_class);

// Swaps the bin's empty array for a full one. The depot must hold one.
void take(ThreadCache* thread, SizeClass size_class);

// `remove` takes a full array out of the depot; nullptr if there is none. The caller empties the
// array and hands it to `keep`.
void** remove(ThreadCache* thread, SizeClass size_class);
void keep(ThreadCache* thread, void** slots);

// Frees the empty arrays.
void release_spares(ThreadCache* thread);

}  // namespace loft::depot

// What the caches of all threads hold together, where a limit bounds it (limits::scarce_cached). A
// thread that waits keeps what it has: nobody else may take it out of its cache. So a cache grows
// only if all of them stay within the bound, and within its own share of that.

namespace loft::pool {

// Whether the thread's cache may grow by `more` bytes; they are counted then.
LOFT_COLD bool claim(ThreadCache* thread, size_t more);
inline bool has_room(ThreadCache* thread, size_t more) {
  return LOFT_LIKELY(limits::cache_share() == limits::kNone) || claim(thread, more);
}

// The cache has become smaller.
LOFT_COLD void give_back(ThreadCache* thread);
inline void tell(ThreadCache* thread) {
  if (LOFT_UNLIKELY(thread->counted_bytes != 0)) give_back(thread);
}

// The cache is empty, or counts no longer.
void forget(ThreadCache* thread);

// In the child of a fork: counts of all threads start over.
void forget_all();

}  // namespace loft::pool
