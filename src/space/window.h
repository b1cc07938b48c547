// The address space of the heap: one window, and beside it the tables that describe it.
//
//   pagemap    8 bytes for each granule of the window
//   gap        of a random length
//   metadata   slabs, spans, heaps, caches; never in the window (HotOS'23: segregated metadata)
//   gap        of another
//   window     spans of granules: slabs and large objects, nothing else
//
// The window is a range of addresses by agreement, not a reservation. Each part grows upwards from
// its first byte, in steps, and nothing is mapped beyond the last step. Limits on address space and
// locked memory, core dumps and VIRT therefore show only what loft uses. If another mapping is in
// the way, the heap continues behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"

namespace loft {

inline constexpr unsigned kGranuleLog = 16;
inline constexpr size_t kGranule = size_t{1} << kGranuleLog;  // also the largest page size served
// Sizes of the window's tables, in bytes. Each defining file checks its own.
inline constexpr size_t kPagemapEntry = 8;   // space/pagemap.h
inline constexpr size_t kMetadataUnit = 64;  // space/metadata.h
inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kLargestWindow = size_t{1} << 46;  // 64 TiB, half of all addresses

// Metadata takes at most this share (1/32, or 2 KiB for 64 KiB) of the used window. One class needs
// at most 576 bytes for 64 KiB (16-byte objects); a window cut into all classes in turn needs 2
// KiB.
inline constexpr size_t kMetadataShare = 32;

// A range mapped from its base upwards. Guarded by the lock of the code that grows it.
struct Region {
  uintptr_t base = 0;
  uintptr_t end = 0;
  uintptr_t committed = 0;  // base <= committed <= end, a multiple of kGranule
  size_t step = 0;          // least bytes to map at once: address space, resident only when used

  // Maps at least up to `target`, and at least a 32nd of the region's present size, within [step,
  // 64 MiB], to keep system calls few. If that much is refused, maps no more than `target` needs.
  // False without memory or address space.
  bool grow(uintptr_t target);
};

struct Window {
  Region pagemap;
  Region metadata;
  uintptr_t nulls = 0;  // a granule of addresses above metadata, for open_nulls
  Region heap;
};

// Zero-initialised until the first allocation. Guarded by the lock in space/span.cc, except (a)
// `metadata` after start, which the lock in space/metadata.cc guards, and (b) what pagemap.h
// publishes.
extern LOFT_HIDDEN Window window;

// Lays out the window and maps the first step of each region. False without memory; it may then be
// called again.
bool open_window();

// The place of the next step of the heap.
struct HeapStep {
  uintptr_t base = 0;  // 0: no memory
  bool moved = false;  // another mapping was in the way; `base` lies behind it
};

// Maps `bytes` of the heap from `from`, which is at most heap.committed, and the tables for them.
// If another mapping is in the way, the step begins behind it. Of the addresses in between, the
// heap then owns only those below the old heap.committed.
HeapStep grow_heap(uintptr_t from, size_t bytes);

// Maps a read-only granule of zeros above all metadata: every pointer there reads as null. nullptr
// without memory. Called once.
void** open_nulls();

// Closes the ends of the gaps to any access, so that nobody maps memory there (hardened=full). A
// part's other end, where it grows, has nothing mapped behind it.
void close_gaps();

// Gives a newly mapped part of the heap the same huge-page advice as the rest. The system then
// merges it with its neighbours into one mapping; the number of mappings of a process is limited.
void advise_huge_pages(uintptr_t at, size_t bytes);

}  // namespace loft

// The granules that an acquire of span.h returns.

namespace loft::span {

struct Range {
  uintptr_t base = 0;  // 0: no memory
  bool zero = false;   // every byte reads as zero
};

}  // namespace loft::span
