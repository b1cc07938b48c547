// The address space of the heap: one window, and beside it the tables that describe it.
//
//   pagemap    8 bytes for each granule of the window
//   tails      2 bytes for each granule (large/tails.h)
//   metadata   slabs, spans, heaps, caches; never inside the window (HotOS'23: segregated metadata)
//   window     spans of granules: slabs and large objects, nothing else
//
// The window is a range of addresses by agreement, not a reservation. Each part grows upwards from
// its first byte, in steps, and nothing is mapped beyond its last step: limits on address space and
// on locked memory, core dumps and whoever reads VIRT see what loft uses. Where another mapping is
// in the way, the heap goes on behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"

namespace loft {

inline constexpr unsigned kGranuleLog = 16;
inline constexpr size_t kGranule = size_t{1} << kGranuleLog;  // also the largest page size served
// What describes the window, in bytes. The files that define the three check their own.
inline constexpr size_t kPagemapEntry = 8;   // space/pagemap.h
inline constexpr size_t kTailRecord = 2;     // large/tails.h
inline constexpr size_t kMetadataUnit = 64;  // space/metadata.h
inline constexpr size_t kHugePage = size_t{2} << 20;

// Of what the window has in use. Of slabs, those of sixteen bytes need most, 576 bytes for each
// 64 KiB; all classes in turn, 2 KiB.
inline constexpr size_t kMetadataShare = 32;

// A range that is mapped from its base upwards. Guarded by the lock of whoever grows it.
struct Region {
  uintptr_t base = 0;
  uintptr_t end = 0;
  uintptr_t committed = 0;  // base <= committed <= end, a multiple of kGranule
  size_t step = 0;          // least bytes to map at once; address space only, touched when used

  // Maps up to at least `target`, and ahead of it by a 32nd of the region's size so far, within
  // [step, 64 MiB], to keep system calls few. False without memory or address space.
  bool grow(uintptr_t target);
};

// Other mappings that the heap has gone on behind. Of more than these, looks take longer.
inline constexpr size_t kMostGaps = 16;

struct Window {
  // The end of the gap that `at` lies in; `at` if it lies in none. Needs no lock.
  uintptr_t behind_gap(uintptr_t at) const;
  void add_gap(uintptr_t begin, uintptr_t end);

  struct Gap {
    uintptr_t begin;
    uintptr_t end;
  };

  Region pagemap;
  Region tails;
  Region metadata;
  uintptr_t nulls = 0;  // a granule of addresses behind metadata, for open_nulls
  Region heap;
  Gap gaps[kMostGaps] = {};
  Atomic<size_t> gap_count{0};
};

// Zero-initialised until the first allocation. Guarded by the lock in space/span.cc, except the
// gaps, `metadata` after start (the lock in space/metadata.cc) and what pagemap.h publishes.
extern LOFT_HIDDEN Window window;

// Lays out the window and maps the first step of each region. False without memory; may be called
// again.
bool open_window();

// Where the heap goes on.
struct HeapStep {
  uintptr_t base = 0;  // 0: no memory
  bool moved = false;  // another mapping is in the way, and `base` lies behind it
};

// Maps `bytes` of the heap from `from` on, and the tables for them. `from` is at most
// heap.committed. Where another mapping is in the way, the step begins behind it instead, and
// nothing between `from` and there is the heap's beyond the old heap.committed.
HeapStep grow_heap(uintptr_t from, size_t bytes);

// Where a null pointer can be read, and nothing written, behind all of metadata. nullptr without
// memory. Called once.
void** open_nulls();

// Asks the system for what it was asked for the rest of the heap: a part that was mapped anew is
// then one mapping with its neighbours again, of which the system allows a process only so many.
void advise_huge_pages(uintptr_t at, size_t bytes);

}  // namespace loft
