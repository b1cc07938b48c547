// Spans: runs of granules of the window, handed to slabs and large objects and taken back. Free
// neighbours join, but only spans of one state: resident, clean or unmapped. The state of each byte
// of a free span is therefore known. Any thread may call any function. None calls into the floors
// above, so callers may hold locks of those floors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/idle.h"
#include "space/window.h"

namespace loft::span {

// Maps the window on first use. False without memory.
bool initialise();

// From now on, free's fast path serves processors (owner=cpu).
void serve_processors();

// From now on, every free takes the slow path (hardened=full).
void serve_nobody();

// From now on, operator new and delete have malloc's and free's fast paths.
void serve_operators();

// The first choice of an acquire.
enum class Want : uint8_t {
  kResident,  // resident pages: they cost no fault and no growth
  kAhead,     // as kResident, then granules that were populated ahead, then as kMixed
  kMixed,     // as kResident, if need be in two parts, one of them clean
  kClean,     // no pages, as the caller brings its own; else kMixed
  // From here on, an acquire does not wait for spans in transit.
  kResidentOnly,  // a resident free span, or nothing
  kCleanOnly,     // no pages, or nothing
};

// From so many bytes on the system is asked first whether it grants them, as it is by malloc of the
// C library. The heap itself is mapped without the question, so that it may grow ahead of its use.
inline constexpr size_t kAskFrom = size_t{1} << 30;

// Hands out `granules` granules; their base is a multiple of `alignment` bytes (a power of two, at
// least kGranule). The caller fills their pagemap entries. `bytes` of them count against the limits
// (os/limits.h): fewer than all if the rest will hold (a) no memory or (b) memory moved from
// other granules. {} without memory, or if the hard limit or the system refuses.
Range acquire_as(size_t granules, size_t alignment, size_t bytes, Want want);
inline Range acquire(size_t granules, size_t alignment, size_t bytes) {
  return acquire_as(granules, alignment, bytes, Want::kMixed);
}

// As acquire, but only a resident free span; {} if none is as long.
inline Range acquire_resident(size_t granules) {
  return acquire_as(granules, kGranule, granules << kGranuleLog, Want::kResidentOnly);
}

// As acquire, for a caller that moves pages there. Prefers granules without pages: the move would
// drop those of a resident span.
inline Range acquire_clean(size_t granules, size_t bytes) {
  return acquire_as(granules, kGranule, bytes, Want::kClean);
}

// For one slab of a class of which `filled` bytes are in use and touched. It may get memory
// populated ahead (space/prefault.h).
Range acquire_growing(size_t granules, size_t filled);

// The same for up to `most` slabs, of which the caller needs only one yet. Returns how many there
// are; 0 without memory. More than one come (a) in one resident span; (b) in resident spans of one
// slab each; (c) without pages, if no free span is resident and memory populated ahead does not
// serve the class.
unsigned acquire_slabs(size_t granules, unsigned most, size_t filled, Range* ranges);

// Threads sleep on the lock of the spans. A hint.
bool is_crowded();

// Takes back granules, their entries, and the bytes that counted. `dirty`: the granules were
// written and still hold memory.
void release(uintptr_t base, size_t granules, bool dirty, size_t bytes);

// The same for several at once, under one hold of the lock.
struct Returned {
  uintptr_t base;
  size_t granules;
  bool dirty;
  size_t bytes;
};
void release_all(const Returned* spans, unsigned count);

// The same for granules that have no entries any more.
void release_left(uintptr_t base, size_t granules, bool dirty, size_t bytes);

// The same for granules that count in full.
inline Range acquire(size_t granules, size_t alignment) {
  return acquire(granules, alignment, granules << kGranuleLog);
}
inline void release(uintptr_t base, size_t granules, bool dirty) {
  release(base, granules, dirty, granules << kGranuleLog);
}

// Adds the `granules` right after `end` to the span that ends there; they count in full. False if
// they are in use, or a limit or the system forbids them.
bool extend(uintptr_t end, size_t granules);

// Counts `to` bytes instead of `from` for granules in use. False, with nothing changed, if the hard
// limit forbids it.
bool recount(size_t from, size_t to);

// As release_left, for granules that lie in a mapping of their own, after mapping them anew. If
// that fails, they are lost to the window.
void release_moved(uintptr_t base, size_t granules, size_t bytes);

// Releases the target of a failed move. Its first `moved` bytes may be a hole by now, with another
// mapping in it; they hold no memory. The bytes behind them may hold memory if `dirty`.
void release_target(uintptr_t base, size_t granules, size_t moved, bool dirty, size_t bytes);

// Purges free resident spans, in steps, until at most `keep` bytes of them stay. Returns the bytes
// purged.
size_t purge(size_t keep);

// So many ticks have passed. Returns how many bytes of free resident spans were idle: the least
// amount at any moment of the last kDecayTicks ticks. A large surplus is idle sooner: the amount
// above a quarter (1 / kPlentyShare) of the memory in use after one tick, above an eighth after
// two, and so on. So much is idle at the end of a phase of the program, and little within one. One
// thread at a time calls this.
size_t idle_bytes(unsigned passed = 1);
uint32_t ticks();  // ticks so far

// Purges up to `wanted` bytes of free resident spans, the longest first and a bounded number of
// them. They are in transit meanwhile: the lock is not held during the system calls. Returns the
// bytes purged.
size_t purge_step(size_t wanted);

// Bytes of the window ever handed out.
size_t used_bytes();

// Bytes of the heap that may be resident. Takes no lock: a hint.
size_t counted();

// Bytes of the heap and of loft's own tables that may be resident. They count against the limits.
size_t committed();

// Read without the lock.
struct SpanTotals {
  size_t dirty;               // bytes of free spans that may be resident
  size_t refused;             // of these, in spans that the system refused to take
  size_t clean;               // bytes of free spans without memory, mapped or not
  size_t acquired, released;  // spans, so far
  size_t locks, waits;
};
SpanTotals totals();

void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::span
