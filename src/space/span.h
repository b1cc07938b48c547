// Spans: runs of granules of the window, handed to slabs and large objects and taken back. Free
// neighbours join; spans that are resident, clean and unmapped are kept apart, so that the state of
// each byte of a free span is known. All functions may be called by any thread; none calls back to
// the floors above, whose locks may be held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/search.h"
#include "space/window.h"

namespace loft::span {

using Range = Granules;

// Maps the window on first use. False without memory.
bool initialise();

// From now on free's fast path is for processors (owner=core).
void serve_processors();

// `granules` granules whose base is a multiple of `alignment` bytes (a power of two, at least
// kGranule). Their pagemap entries are the caller's to fill. `bytes` of them count against the
// limits (space/limits.h): less than all where the rest will hold no memory, or that of other
// granules. No memory also where the hard limit forbids it.
Range acquire(size_t granules, size_t alignment, size_t bytes);

// As acquire, for a caller that moves pages there: granules without pages first, because those of a
// resident span would be dropped.
Range acquire_clean(size_t granules, size_t bytes);

// Takes granules back, with their entries, and the bytes that counted. `dirty`: they were written
// and still hold memory.
void release(uintptr_t base, size_t granules, bool dirty, size_t bytes);

// Both for granules that count in whole.
inline Range acquire(size_t granules, size_t alignment) {
  return acquire(granules, alignment, granules << kGranuleLog);
}
inline void release(uintptr_t base, size_t granules, bool dirty) {
  release(base, granules, dirty, granules << kGranuleLog);
}

// Adds the `granules` right after `end` to the span that ends there, of which `bytes` more count.
// False if they are in use, or not allowed. `zero` is cleared when they are not known to be zero.
bool extend(uintptr_t end, size_t granules, bool& zero, size_t bytes);

// Of granules in use, `to` bytes count instead of `from`. False, and nothing changed, where the
// hard limit forbids it.
bool recount(size_t from, size_t to);

// Gives granules back that lie in a mapping of their own, as a fresh one. Where that cannot be had
// they are lost to the window, and their entries say that nothing is there.
void release_moved(uintptr_t base, size_t granules, size_t bytes);

// Gives granules back over whose first `moved` bytes a move failed: these may be a hole by now, and
// another mapping in it. What is there holds no memory; what is behind it may, where it is `dirty`.
void release_target(uintptr_t base, size_t granules, size_t moved, bool dirty, size_t bytes);

// Gives free resident spans back to the system until at most `keep` bytes of them stay. Returns the
// bytes given back.
size_t purge(size_t keep);

// How many bytes of free resident spans nobody has needed for some time: the least that there were
// of them at any moment of the last kDecayTicks ticks. Or of the last one, as far as they are more
// than a quarter (1 / kPlentyShare) of what is in use, of the last two, more than an eighth, and so
// on: much at the end of a phase of the program, little in the midst of one. A tick is a call of
// this; one thread at a time makes them.
inline constexpr unsigned kDecayTicks = 5;
inline constexpr unsigned kPlentyShare = 4;
inline constexpr unsigned kDecayTicksOfPlenty = 2;  // as nobody knows how long the first one was
size_t idle_bytes();
uint32_t ticks();  // so far

// Gives up to `wanted` bytes of free resident spans back, the longest first, a bounded number of
// them, without holding the lock meanwhile. Returns the bytes that were given back.
size_t purge_step(size_t wanted);

// Bytes of the window that were ever handed out.
size_t used_bytes();

// What may be resident of the heap and of loft's own tables: what counts against the limits.
size_t committed();

// Read without the lock.
struct Totals {
  size_t dirty;                      // bytes of free spans that may be resident
  size_t refused;                    // of these, in spans that the system did not take back
  size_t clean;                      // bytes of free spans that are not resident, mapped or not
  unsigned long acquired, released;  // spans, so far
  unsigned long locks, waits;
};
Totals totals();

void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::span
