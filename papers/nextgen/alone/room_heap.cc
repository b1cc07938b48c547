#include "nextgen/alone/room_heap.h"

#include "base/bits.h"
#include "base/macros.h"
#include "space/metadata.h"
#include "space/span.h"

namespace nextgen {

namespace {

// A slab is a granule for up to a page; larger objects would leave too few to it.
constexpr size_t granules_of(loft::SizeClass c) { return loft::class_size(c) <= 4096 ? 1 : 4; }
constexpr uint32_t capacity_of(loft::SizeClass c) {
  return static_cast<uint32_t>((granules_of(c) << loft::kGranuleLog) / loft::class_size(c));
}
constexpr size_t descriptor_bytes(loft::SizeClass c) {
  return sizeof(Slab) + capacity_of(c) * sizeof(uint16_t);
}
static_assert(capacity_of(0) <= UINT16_MAX + 1u);
static_assert(descriptor_bytes(0) <= loft::kMetadataMaxBlock);
static_assert(loft::kMinObject == 16);

// A place is offset * inverse >> kInverseLog: exact, because the error of the inverse is below the
// size, which is at most 2^15, and the offset below 2^18: together less than 2^36.
constexpr unsigned kInverseLog = 36;
constexpr uint64_t inverse_of(loft::SizeClass c) {
  const size_t size = loft::class_size(c);
  return ((uint64_t{1} << kInverseLog) + size - 1) / size;
}

void fill(uintptr_t base, size_t granules, uint16_t kind, uint32_t index) {
  loft::pagemap.fill(base, granules, loft::Entry(loft::kNoHeap, kind, index));
}
void clear(uintptr_t base, size_t granules) { loft::pagemap.fill(base, granules, loft::Entry{}); }

}  // namespace

void RoomHeap::insert(Slab* slab) {
  Slab*& first = partial_[slab->size_class];
  slab->prev = nullptr;
  slab->next = first;
  if (first != nullptr) first->prev = slab;
  first = slab;
}

void RoomHeap::remove(Slab* slab) {
  if (slab->next != nullptr) slab->next->prev = slab->prev;
  if (slab->prev != nullptr) {
    slab->prev->next = slab->next;
  } else {
    partial_[slab->size_class] = slab->next;
  }
}

Slab* RoomHeap::make_slab(loft::SizeClass c) {
  if (!loft::span::initialise()) return nullptr;
  auto* const slab = static_cast<Slab*>(loft::metadata::allocate(descriptor_bytes(c)));
  if (slab == nullptr) return nullptr;
  const loft::span::Range range = loft::span::acquire(granules_of(c), loft::kGranule);
  if (range.base == 0) {
    loft::metadata::release(slab, descriptor_bytes(c));
    return nullptr;
  }
  slab->heap = this;
  slab->base = range.base;
  slab->inverse = inverse_of(c);
  slab->capacity = capacity_of(c);
  slab->made = slab->free_count = 0;
  slab->size_class = static_cast<uint8_t>(c);
  fill(range.base, granules_of(c), static_cast<uint16_t>(kRoomClasses + c),
       loft::metadata::index_of(slab));
  return slab;
}

void RoomHeap::unmake_slab(Slab* slab) {
  const loft::SizeClass c = slab->size_class;
  clear(slab->base, granules_of(c));
  loft::span::release(slab->base, granules_of(c), true);
  loft::metadata::release(slab, descriptor_bytes(c));
}

void* RoomHeap::allocate_of(loft::SizeClass c) {
  Slab* slab = partial_[c];
  if (LOFT_UNLIKELY(slab == nullptr)) {
    slab = spare_[c] != nullptr ? spare_[c] : make_slab(c);
    if (slab == nullptr) return nullptr;
    spare_[c] = nullptr;
    insert(slab);
  }
  const uint32_t place = slab->free_count != 0 ? slab->free[--slab->free_count] : slab->made++;
  if (slab->is_full()) remove(slab);
  return reinterpret_cast<void*>(slab->base + place * loft::class_size(c));
}

void* RoomHeap::allocate_large(size_t alignment, size_t bytes) {
  const size_t granules = loft::round_up(bytes, loft::kGranule) >> loft::kGranuleLog;
  if (granules > UINT32_MAX || !loft::span::initialise()) return nullptr;
  const loft::span::Range range =
      loft::span::acquire(granules, loft::most(alignment, loft::kGranule));
  if (range.base == 0) return nullptr;
  fill(range.base, granules, range.zero ? kRoomLargeZero : kRoomLarge,
       static_cast<uint32_t>(granules));
  return reinterpret_cast<void*>(range.base);
}

void* RoomHeap::allocate(size_t bytes) {
  return LOFT_LIKELY(bytes <= loft::kSmallMax) ? allocate_of(loft::class_of(bytes))
                                               : allocate_large(loft::kGranule, bytes);
}

// Slabs start at granules: an object is aligned to what divides its size.
void* RoomHeap::allocate_aligned(size_t alignment, size_t bytes) {
  if (alignment > loft::kSmallMax || bytes > loft::kSmallMax) {
    return allocate_large(alignment, bytes);
  }
  loft::SizeClass c = loft::class_of(loft::round_up(bytes, alignment));
  while (loft::class_size(c) % alignment != 0) ++c;  // the last one is a power of two
  return allocate_of(c);
}

void RoomHeap::release(void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const loft::Entry entry = loft::pagemap.of(p);
  if (LOFT_UNLIKELY(entry.bin() < kRoomClasses)) {
    const size_t granules = entry.index();
    clear(address, granules);
    return loft::span::release(address, granules, true);
  }
  auto* const slab = loft::metadata::at_index<Slab>(entry.index());
  const bool was_full = slab->is_full();
  const uint64_t place = (address - slab->base) * slab->inverse >> kInverseLog;
  slab->free[slab->free_count++] = static_cast<uint16_t>(place);
  RoomHeap& heap = *slab->heap;
  if (LOFT_UNLIKELY(slab->is_empty())) {
    if (!was_full) heap.remove(slab);
    Slab*& spare = heap.spare_[slab->size_class];
    if (spare != nullptr) return unmake_slab(slab);
    spare = slab;
  } else if (LOFT_UNLIKELY(was_full)) {
    heap.insert(slab);
  }
}

}  // namespace nextgen
