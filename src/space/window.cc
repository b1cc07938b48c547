#include "space/window.h"

#include <initializer_list>

#include "base/options.h"
#include "os/os.h"

namespace loft {

constinit Window window;

namespace {

constexpr size_t kLargestWindow = size_t{1} << 43;   // 8 TiB; halved until the reservation succeeds
constexpr size_t kSmallestWindow = size_t{1} << 28;  // 256 MiB
constexpr size_t kLargestStep = size_t{64} << 20;

// Where a window is planned under RLIMIT_AS: empty on 47-bit and on 39-bit address spaces.
constexpr uintptr_t kPlannedBases[] = {uintptr_t{1} << 44, uintptr_t{1} << 36};
constexpr size_t kPlannedSpread = size_t{1} << 35;

constexpr size_t pagemap_bytes(size_t heap) { return round_up(heap / kGranule * 8, kGranule); }
constexpr size_t tails_bytes(size_t heap) {
  return round_up(heap / kGranule * kTailRecord, kGranule);
}

constexpr size_t kMostMetadata = kLargestWindow / kMetadataShare;  // 2^32 units, by index
constexpr size_t metadata_bytes(size_t heap, bool reserved) {
  return least(heap / (reserved ? kMetadataShare : kPlannedMetadataShare), kMostMetadata);
}

void lay_out(uintptr_t base, size_t heap) {
  auto carve = [&base](Region& region, size_t bytes, size_t step, bool ours) {
    region = Region{base, base + bytes, base, step, ours};
    base += bytes;
  };
  carve(window.pagemap, pagemap_bytes(heap), kGranule, true);
  carve(window.tails, tails_bytes(heap), kGranule, true);
  carve(window.metadata, metadata_bytes(heap, window.reserved), 4 * kGranule, window.reserved);
  window.nulls = base;
  base += kGranule;
  carve(window.heap, heap, 64 * kGranule, window.reserved);
}

bool map_granule_tables() {
  return os::map_zeros(reinterpret_cast<void*>(window.pagemap.base),
                       window.tails.end - window.pagemap.base, window.reserved);
}

bool commit_first_steps() {
  return window.pagemap.grow(window.pagemap.base + 1) &&
         window.metadata.grow(window.metadata.base + 1) && window.heap.grow(window.heap.base + 1);
}

bool open_reserved() {
  for (size_t heap = kLargestWindow; heap >= kSmallestWindow; heap /= 2) {
    const size_t total =
        pagemap_bytes(heap) + tails_bytes(heap) + metadata_bytes(heap, true) + heap + 2 * kGranule;
    void* at = os::reserve(total);
    if (at == nullptr) continue;
    window.reserved = true;
    lay_out(round_up(reinterpret_cast<uintptr_t>(at), kGranule), heap);
    if (map_granule_tables() && commit_first_steps()) {
      // Where the system would give huge pages to everybody, the first object of each of a few
      // classes would cost 2 MiB of memory. Region::grow takes it back for the heap.
      os::allow_huge_pages(at, total, false);
      return true;
    }
    os::unreserve(at, total);
    return false;
  }
  return false;
}

void unmap(uintptr_t from, uintptr_t to) {
  if (from != to) os::unreserve(reinterpret_cast<void*>(from), to - from);
}

bool open_planned(size_t limit) {
  size_t heap = kSmallestWindow;
  while (heap < limit && heap < kLargestWindow) heap *= 2;
  window.reserved = false;
  for (const uintptr_t base : kPlannedBases) {
    lay_out(round_up(base + os::entropy() % kPlannedSpread, kGranule), heap);
    if (!map_granule_tables()) continue;
    if (commit_first_steps()) return true;
    // Whatever is left here would refuse the place to the next attempt, when there is memory again.
    unmap(window.pagemap.base, window.tails.end);
    unmap(window.metadata.base, window.metadata.committed);
    unmap(window.heap.base, window.heap.committed);
  }
  return false;
}

}  // namespace

void** open_nulls() {
  const bool mapped =
      os::map_zeros(reinterpret_cast<void*>(window.nulls), kGranule, window.reserved);
  return mapped ? reinterpret_cast<void**>(window.nulls) : nullptr;
}

void advise_huge_pages(uintptr_t at, size_t bytes) {
  os::allow_huge_pages(reinterpret_cast<void*>(at), bytes, get(options.thp) == kHugePrefer);
}

bool Region::grow(uintptr_t target) {
  if (target <= committed) return true;
  if (target > end) return false;
  const size_t ahead = clamp(size_t{committed - base} / 8, step, kLargestStep);
  const uintptr_t needed = round_up(target, kGranule);
  const uintptr_t wanted = least(end, round_up(most(needed, committed + ahead), kGranule));
  for (const uintptr_t to : {wanted, needed}) {
    if (os::commit(reinterpret_cast<void*>(committed), to - committed, ours)) {
      if (this == &window.heap && get(options.thp) == kHugePrefer) {
        os::allow_huge_pages(reinterpret_cast<void*>(committed), to - committed, true);
      } else if (!window.reserved) {
        os::allow_huge_pages(reinterpret_cast<void*>(committed), to - committed, false);
      }
      __atomic_store_n(&committed, to, __ATOMIC_RELAXED);  // metadata::contains
      return true;
    }
  }
  return false;
}

bool open_window() {
  const size_t limit = os::address_space_limit();
  const bool open = limit == SIZE_MAX ? open_reserved() : open_planned(limit);
  if (!open) window = Window{};
  return open;
}

}  // namespace loft
