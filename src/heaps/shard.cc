#include "heaps/shard.h"

#include <new>

#include "base/options.h"
#include "os/os.h"
#include "space/span.h"

namespace loft {

namespace {

// Extents grow with the shard, from one granule to a few megabytes: as much as a map of one
// metadata block describes.
constexpr size_t kLongestExtent = kNamedExtent << kUnitLog;

// Objects beyond these limits get an extent to themselves. Every extent is aligned to a granule.
constexpr size_t kMostShared = kNamedUnits << kUnitLog;
constexpr size_t kMostSharedAlignment = kGranule / 2;
static_assert(kMostShared <= kLongestExtent && kLongestExtent % kGranule == 0);

size_t granules_in(const Extent* extent) { return extent->units >> (kGranuleLog - kUnitLog); }

// The map of a long region has pages of its own, which cost nothing until touched.
size_t map_bytes(size_t units) {
  const size_t bytes = units * sizeof(uint32_t);
  return bytes <= kMostMapBytes ? bytes : round_up(bytes, os::page_size());
}

uint32_t* allocate_map(size_t units) {
  const size_t bytes = map_bytes(units);
  if (bytes <= kMostMapBytes) return static_cast<uint32_t*>(metadata::allocate(bytes));
  void* map = os::reserve(bytes);
  if (map == nullptr) return nullptr;
  os::advise(map, bytes, os::Advice::kNoHugePages);
  if (os::commit(map, bytes)) return static_cast<uint32_t*>(map);
  os::unmap(map, bytes);
  return nullptr;
}

void release_map(uint32_t* map, size_t units) {
  const size_t bytes = map_bytes(units);
  if (bytes <= kMostMapBytes) return metadata::release(map, bytes);
  os::unmap(map, bytes);
}

size_t metadata_of(const Extent* extent) {
  return sizeof(Extent) + (extent->map == nullptr ? 0 : map_bytes(extent->units));
}

void release_metadata(Extent* extent) {
  if (extent->map != nullptr) release_map(extent->map, extent->units);
  metadata::release(extent, sizeof(Extent));
}

void enter_extent(const Extent* extent) {
  pagemap.fill(extent->base, granules_in(extent),
               Entry(kNoHeap, kGuest, metadata::index_of(extent)));
}

}  // namespace

// Makes an extent that is cut into blocks. nullptr without memory for its descriptors.
Extent* Shard::make_extent(uintptr_t base, size_t units, bool dirty) {
  void* memory = metadata::allocate(sizeof(Extent));
  if (memory == nullptr) return nullptr;
  auto* extent = new (memory) Extent{base, units, nullptr, 0, this, nullptr, nullptr};
  extent->map = allocate_map(units);
  if (extent->map != nullptr && blocks_.add(extent, dirty)) return extent;
  release_metadata(extent);
  return nullptr;
}

void Shard::adopt(Extent* extent) {
  extents_.push_front(extent);
  counters_.extent_bytes.add(extent->units << kUnitLog);
  counters_.metadata_bytes.add(metadata_of(extent));
}

Shard::Leftover Shard::part_with(Extent* extent, bool dirty) {
  if (next_to_purge_ == extent) next_to_purge_ = extent->next;
  if (spare_ == extent) spare_ = nullptr;
  extents_.remove(extent);
  counters_.extent_bytes.add(-(extent->units << kUnitLog));
  counters_.metadata_bytes.add(-metadata_of(extent));
  return {extent, dirty};
}

// Releases the granules first: until then their entries name the extent.
void Shard::return_to_window(Leftover leftover) {
  span::release(leftover.extent->base, granules_in(leftover.extent), leftover.dirty);
  release_metadata(leftover.extent);
}

Extent* Shard::cover(uintptr_t base, size_t units) {
  region_ = make_extent(base, units, false);
  if (region_ != nullptr) adopt(region_);
  return region_;
}

bool Shard::grow(size_t size) {
  const size_t ahead = round_down(counters_.extent_bytes.get() / 2, kGranule);
  const size_t needed = round_up(size, kGranule);
  size_t bytes = most(needed, clamp(ahead, kGranule, kLongestExtent));
  span::Range range = span::acquire(bytes >> kGranuleLog, kGranule);
  // Near a limit there may be memory for this object only.
  if (range.base == 0 && bytes != needed) {
    bytes = needed;
    range = span::acquire(bytes >> kGranuleLog, kGranule);
  }
  if (range.base == 0) return false;
  Extent* extent = make_extent(range.base, bytes >> kUnitLog, !range.zero);
  if (extent == nullptr) {
    span::release(range.base, bytes >> kGranuleLog, !range.zero);
    return false;
  }
  enter_extent(extent);
  adopt(extent);
  return true;
}

void* Shard::allocate(size_t size, size_t alignment) {
  void* p = blocks_.allocate(size, alignment);
  if (LOFT_LIKELY(p != nullptr)) return p;
  if (blocks_.give_up_empty_rows()) p = blocks_.allocate(size, alignment);
  if (p == nullptr && region_ == nullptr && grow(size)) p = blocks_.allocate(size, alignment);
  return p != nullptr ? p : blocks_.allocate_anywhere(size, alignment);
}

bool Shard::stands_alone(size_t size, size_t alignment) {
  return size > kMostShared || alignment > kMostSharedAlignment;
}

void* Shard::allocate_alone(size_t size, size_t alignment, bool& zero) {
  const size_t bytes = round_up(size, os::page_size());
  const size_t granules = round_up(bytes, kGranule) >> kGranuleLog;
  void* memory = metadata::allocate(sizeof(Extent));
  if (memory == nullptr) return nullptr;
  const span::Range range = span::acquire(granules, most(alignment, kGranule));
  if (range.base == 0) {
    metadata::release(memory, sizeof(Extent));
    return nullptr;
  }
  auto* extent = new (memory) Extent{
      range.base, granules << (kGranuleLog - kUnitLog), nullptr, bytes, this, nullptr, nullptr};
  enter_extent(extent);
  zero = range.zero;
  const os::Guard guard(lock_);
  adopt(extent);
  counters_.alone.add(1);
  counters_.alone_bytes.add(bytes);
  return reinterpret_cast<void*>(range.base);
}

Shard::Leftover Shard::free(const ObjectAt& object) {
  needs_purge_.store(true, memory_order_relaxed);
  Block* block = blocks_.free(object);
  if (block == nullptr || region_ != nullptr) return {};
  Extent* extent = block->extent;
  if (LOFT_LIKELY(block->units != extent->units)) return {};
  // One empty extent is kept. So a heap that fills and empties in turn does not go to the window
  // each time.
  if (spare_ == nullptr || spare_ == extent || Blocks::only_free_block(spare_) == nullptr) {
    spare_ = extent;
    return {};
  }
  blocks_.remove(extent);
  return part_with(extent, true);
}

Shard::Leftover Shard::free_alone(Extent* extent) {
  counters_.alone.add(size_t{0} - 1);
  counters_.alone_bytes.add(-extent->bytes);
  return part_with(extent, true);
}

bool Shard::resize(Block* block, size_t size) {
  needs_purge_.store(true, memory_order_relaxed);
  return blocks_.resize(block, size);
}

void Shard::start_round() {
  needs_purge_.store(false, memory_order_relaxed);
  if (region_ != nullptr) return;
  blocks_.give_up_empty_rows();
  next_to_purge_ = extents_.front();
}

void Shard::purge(bool all, const os::Lock& awaited, size_t& purged) {
  last_purge_ = span::ticks();
  while (Extent* extent = next_to_purge_) {
    next_to_purge_ = extent->next;
    if (extent->map != nullptr && !purge_extent(extent, all, purged)) {
      needs_purge_.store(true, memory_order_relaxed);
    }
    if (all) lock_.let_others();
    if (awaited.has_sleepers() || (!all && lock_.has_sleepers())) break;
  }
  if (!round_is_over()) needs_purge_.store(true, memory_order_relaxed);
}

// False if a block waits for the next round.
bool Shard::purge_extent(Extent* extent, bool all, size_t& purged) {
  if (Block* whole = Blocks::only_free_block(extent); whole != nullptr) {
    if (!all && !whole->waited) {
      whole->waited = true;
      return false;
    }
    const bool dirty = whole->dirty;
    blocks_.remove(extent);
    return_to_window(part_with(extent, dirty));
    return true;
  }
  return get(options.thp) == kHugePrefer || !Blocks::purge_pages(extent, all, purged);
}

void Shard::give_up() {
  while (Extent* extent = extents_.front()) {
    extents_.remove(extent);
    if (extent == region_) {
      release_metadata(extent);
    } else {
      return_to_window({extent, true});
    }
  }
  blocks_.clear();
}

void Shard::check() const {
  if (!kDebug) return;
  for (const Extent* extent = extents_.front(); extent != nullptr; extent = extent->next) {
    if (extent->map != nullptr) blocks_.check(extent);
  }
}

}  // namespace loft
