#include "space/window.h"

#include <initializer_list>

#include "base/atomic.h"
#include "base/options.h"
#include "os/os.h"

namespace loft {

constinit Window window;

namespace {

constexpr size_t kSmallestWindow = size_t{1} << 38;  // 256 GiB
constexpr size_t kLargestStep = size_t{64} << 20;

// Fixed places for the window, for use without asking the system. They are empty on 47-bit address
// spaces, with or without the shadow of an address sanitizer, and on 39-bit ones.
struct Plan {
  uintptr_t base;
  size_t heap;
};
constexpr Plan kPlans[] = {
#if !defined(LOFT_THREAD_SANITIZER)  // its shadow is there, and its mmap then drops the address
    {uintptr_t{3} << 43, size_t{1} << 45},
#endif
    {uintptr_t{1} << 36, size_t{1} << 37},
};
constexpr size_t kPlannedSpread = size_t{1} << 35;

constexpr size_t pagemap_bytes(size_t heap) {
  return round_up(heap / kGranule * kPagemapEntry, kGranule);
}
// An eighth of the heap. Heaps of the program's own need a twelfth for 16-byte objects. Where
// address space is limited, they may fill most of the window.
constexpr size_t kMostMetadata = (size_t{1} << 32) * kMetadataUnit;  // 2^32 units, by index
constexpr size_t metadata_bytes(size_t heap) { return least(heap / 8, kMostMetadata); }

// Numbers that nobody can foresee, for each place that is drawn by lot. They are drawn as the
// library is loaded: a program may keep itself from the system's generator before it allocates.
// What is allocated before draws them itself. Relaxed: numbers by themselves.
enum Lot : uint8_t { kGapOfMetadata, kGapOfHeap, kPlanned, kLots };
constinit Atomic<uint64_t> lots[kLots]{};

[[gnu::constructor(101)]] void draw_lots() {
  if (lots[0].load(memory_order_relaxed) != 0) return;
  uint64_t fresh[kLots];
  os::random_bytes(fresh, sizeof(fresh));
  for (unsigned i = 0; i < kLots; ++i) lots[i].store(fresh[i], memory_order_relaxed);
}

uint64_t drawn(Lot lot) {
  draw_lots();
  return lots[lot].load(memory_order_relaxed);
}

// In front of metadata, and in front of the heap: of up to this length, so that who knows where an
// object is does not know where its slab is described. Sixteen bits of granules in the smallest
// window. Addresses without a mapping cost nothing.
constexpr size_t most_gap(size_t heap) { return heap / 64; }
size_t gap(Lot lot, size_t heap) {
  return round_down(drawn(lot) % (most_gap(heap) - kGranule), kGranule) + kGranule;
}

size_t total_bytes(size_t heap) {
  return pagemap_bytes(heap) + metadata_bytes(heap) + kGranule + heap + 2 * most_gap(heap);
}

void lay_out(uintptr_t base, size_t heap) {
  const auto carve = [&base](Region& region, size_t bytes, size_t step) {
    region = Region{base, base + bytes, base, step};
    base += bytes;
  };
  carve(window.pagemap, pagemap_bytes(heap), kGranule);
  base += gap(kGapOfMetadata, heap);
  carve(window.metadata, metadata_bytes(heap), kGranule);
  window.nulls = base;
  base += kGranule + gap(kGapOfHeap, heap);
  carve(window.heap, heap, 16 * kGranule);
}

bool grow_pagemap(uintptr_t heap_end) {
  const size_t granules = (heap_end - window.heap.base) >> kGranuleLog;
  return window.pagemap.grow(window.pagemap.base + granules * kPagemapEntry);
}

// Grows the heap only together with its pagemap: it cannot be used without.
bool grow_with_pagemap(uintptr_t target) {
  Region& heap = window.heap;
  const uintptr_t before = heap.committed;
  if (!heap.grow(target)) return false;
  if (grow_pagemap(heap.committed)) return true;
  os::unmap(reinterpret_cast<void*>(before), heap.committed - before);
  heap.committed = before;
  return false;
}

void give_up(Region& region) {
  if (region.committed != region.base) {
    os::unmap(reinterpret_cast<void*>(region.base), region.committed - region.base);
  }
  region = Region{};
}

// Maps the first step of each region. On failure, unmaps everything: leftovers would block the
// place for a later attempt, when there is memory again.
bool open_at(uintptr_t base, size_t heap) {
  lay_out(base, heap);
  if (grow_with_pagemap(window.heap.base + 1) && window.metadata.grow(window.metadata.base + 1)) {
    return true;
  }
  for (Region* region : {&window.heap, &window.pagemap, &window.metadata}) {
    give_up(*region);
  }
  return false;
}

bool in_the_way(uintptr_t at, size_t bytes) {
  const auto mapped = os::map_at(reinterpret_cast<void*>(at), bytes);
  if (mapped == os::Mapped::kYes) os::unmap(reinterpret_cast<void*>(at), bytes);
  return mapped == os::Mapped::kOccupied;
}

// The address at which the system would now place a mapping of `bytes`. 0 if there is none, or if
// the system refuses to unmap the test mapping.
uintptr_t find_addresses(size_t bytes) {
  void* at = os::reserve(bytes);
  return at != nullptr && os::unmap(at, bytes) ? reinterpret_cast<uintptr_t>(at) : 0;
}

// The system knows best which addresses will stay free. It is asked for a range as long as the
// window, which is unmapped at once. Most systems hand addresses out from the top, so later
// mappings of the program lie above a heap that grows from below. Some systems hand them out from
// below, or may do so once a gap below the window is full. Then the window begins half-way up the
// range.
bool open_where_system_says() {
  // A short range first: if the system refuses to unmap it, or only claims to unmap it, long ranges
  // would block every planned place.
  const uintptr_t next = find_addresses(kGranule);
  if (next == 0 || in_the_way(next, kGranule)) return false;
  for (size_t heap = kLargestWindow; heap >= kSmallestWindow; heap /= 2) {
    const size_t bytes = total_bytes(heap) + kGranule;
    const uintptr_t at = find_addresses(bytes);
    if (at == 0) continue;
    const uintptr_t base = round_up(at, kGranule);
    const uintptr_t middle = at + bytes / 2;
    const bool from_below = next < middle;
    if (from_below ? open_at(round_up(middle, kGranule), heap / 2) : open_at(base, heap)) {
      return true;
    }
  }
  return false;
}

bool open_planned() {
  for (const Plan& plan : kPlans) {
    const size_t spread = round_down(drawn(kPlanned) % kPlannedSpread, kGranule);
    if (open_at(plan.base + spread, plan.heap)) return true;
  }
  return false;
}

// An address above heap.committed at which the heap can continue for `bytes`; 0 if there is none.
// The size of the mapping in the way is unknown, so the steps double.
uintptr_t find_way_past(size_t bytes) {
  const Region& heap = window.heap;
  for (size_t step = kGranule; step < heap.end - heap.committed; step *= 2) {
    const uintptr_t at = heap.committed + step;
    if (bytes > heap.end - at) return 0;
    if (!in_the_way(at, bytes)) return at;
  }
  return 0;
}

}  // namespace

void** open_nulls() {
  void* const nulls = reinterpret_cast<void*>(window.nulls);
  return os::map_zeros_at(nulls, kGranule) ? static_cast<void**>(nulls) : nullptr;
}

void close_gaps() {
  for (const uintptr_t end : {window.metadata.base, window.heap.base}) {
    void* const at = reinterpret_cast<void*>(end - kGranule);
    // What lies there already is nobody's way from a heap to its metadata, or is closed, too.
    if (os::map_at(at, kGranule) == os::Mapped::kYes) os::close(at, kGranule, true);
  }
}

void advise_huge_pages(uintptr_t at, size_t bytes) {
  const bool wanted = get(options.thp) == kHugePrefer;
  os::advise(reinterpret_cast<void*>(at), bytes,
             wanted ? os::Advice::kHugePages : os::Advice::kNoHugePages);
}

bool Region::grow(uintptr_t target) {
  if (target <= committed) return true;
  if (target > end) return false;
  const size_t ahead = clamp(size_t{committed - base} / 32, step, kLargestStep);
  const uintptr_t needed = round_up(target, kGranule);
  const uintptr_t wanted = least(end, round_up(most(needed, committed + ahead), kGranule));
  for (const uintptr_t to : {wanted, needed}) {
    void* const at = reinterpret_cast<void*>(committed);
    if (os::map_at(at, to - committed) != os::Mapped::kYes) continue;
    // Advises against huge pages unless they are preferred. On a system that uses them by default,
    // the first object of each of a few classes would otherwise cost 2 MiB.
    if (this == &window.heap) {
      advise_huge_pages(committed, to - committed);
    } else {
      os::advise(at, to - committed, os::Advice::kNoHugePages);
    }
    __atomic_store_n(&committed, to, __ATOMIC_RELAXED);  // read by metadata::contains
    return true;
  }
  return false;
}

HeapStep grow_heap(uintptr_t from, size_t bytes) {
  Region& heap = window.heap;
  if (bytes > heap.end - from) return {};
  if (grow_with_pagemap(from + bytes)) return {from, false};
  const uintptr_t before = heap.committed;
  if (!in_the_way(before, from + bytes - before)) return {};
  const uintptr_t behind = find_way_past(round_up(bytes, kGranule));
  if (behind == 0) return {};
  heap.committed = behind;
  if (grow_with_pagemap(behind + bytes)) return {behind, true};
  heap.committed = before;
  return {};
}

bool open_window() {
  if (os::may_try_long_mappings() && open_where_system_says()) return true;
  return open_planned();
}

}  // namespace loft
