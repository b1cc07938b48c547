// The address space of the heap: one window, and beside it the tables that describe it. All of them
// grow upwards from their first byte, in steps, so that little is mapped in a small process
// and each stays one mapping in a large one.
//
//   pagemap    8 bytes for each granule of the window
//   tails      2 bytes for each granule (space/tails.h)
//   metadata   slabs, spans, heaps, caches; never inside the window (HotOS'23: segregated metadata)
//   window     spans of granules: slabs and large objects, nothing else
//
// Normally the whole is reserved at start. Under RLIMIT_AS a reservation would eat the program's
// own allowance, so there the ranges are only planned, far from where the kernel maps, and each
// step fails if somebody else is there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"

namespace loft {

inline constexpr unsigned kGranuleLog = 16;
inline constexpr size_t kGranule = size_t{1} << kGranuleLog;  // also the largest page size served
inline constexpr size_t kTailRecord = 2;                      // bytes
inline constexpr size_t kHugePage = size_t{2} << 20;

// Of the window. Of slabs, those of sixteen bytes need most, 576 bytes for each 64 KiB; all classes
// in turn, 2 KiB.
inline constexpr size_t kMetadataShare = 32;
// Where the window is only planned, and hardly larger than what may be mapped: heaps of the
// program's own take a twelfth for objects of sixteen bytes.
inline constexpr size_t kPlannedMetadataShare = 8;

// A range that is committed from its base upwards. Guarded by the lock of whoever grows it.
struct Region {
  uintptr_t base = 0;
  uintptr_t end = 0;
  uintptr_t committed = 0;  // base <= committed <= end, a multiple of kGranule
  size_t step = 0;          // least bytes to commit at once; address space only, touched when used
  bool ours = false;        // mapped in some way already: nobody else can be there

  // Commits up to at least `target`, and ahead of it by an eighth of the region's size so far,
  // within [step, 64 MiB], to keep system calls few. False without memory or address space.
  bool grow(uintptr_t target);
};

struct Window {
  Region pagemap;
  Region tails;
  Region metadata;
  uintptr_t nulls = 0;  // a granule of addresses behind it, for open_nulls
  Region heap;
  bool reserved = false;
};

// Zero-initialised until the first allocation. Guarded by the lock in space/span.cc, but for
// `metadata` and `tails` after start (locks in space/metadata.cc and space/tails.cc) and what
// pagemap.h publishes.
extern LOFT_HIDDEN Window window;

// Lays out the window and commits the first step of each region. False without memory; may be
// called again.
bool open_window();

// Where a null pointer can be read, and nothing written, behind all of metadata. nullptr without
// memory. Called once.
void** open_nulls();

// Asks the system for what it was asked for the rest of the heap: a part that was mapped anew is
// then one mapping with its neighbours again, of which the system allows a process only so many.
void advise_huge_pages(uintptr_t at, size_t bytes);

}  // namespace loft
