// Heaps of the program's own: the loft_heap_ functions. Their contracts are in include/loft/loft.h.
#include <errno.h>
#include <string.h>

#include "api/surface.h"
#include "base/options.h"
#include "heaps/user_heap.h"
#include "loft/loft.h"
#include "malloc/allocate.h"
#include "os/fault.h"
#include "os/os.h"
#include "runtime/background.h"
#include "stats/objects.h"

namespace loft {

namespace {

UserHeap& checked_heap(const char* call, const loft_heap_t* handle) {
  auto* heap = reinterpret_cast<UserHeap*>(const_cast<loft_heap_t*>(handle));
  if (LOFT_UNLIKELY(heap == nullptr || !heap->exists())) {
    os::fault(Text() << call << " with a heap that was destroyed, or is none: " << handle);
  }
  return *heap;
}

loft_heap_t* handle_of(UserHeap* heap) {
  if (heap == nullptr) os::out_of_memory();
  return reinterpret_cast<loft_heap_t*>(heap);
}

void* allocate_in(const char* call, loft_heap_t* handle, size_t size, size_t alignment,
                  bool zeroed) {
  UserHeap& heap = checked_heap(call, handle);
  background::look_after();
  void* p = heap.allocate(size, alignment, zeroed);
  if (LOFT_LIKELY(p != nullptr)) return p;
  if (heap.over_region()) return os::out_of_memory();
  reclaim();
  p = heap.allocate(size, alignment, zeroed);
  return p != nullptr ? p : refuse(size);
}

void* reallocate_in(const char* call, loft_heap_t* handle, void* p, size_t size, size_t alignment) {
  UserHeap& heap = checked_heap(call, handle);
  void* fresh = heap.reallocate(call, p, size, alignment);
  background::look_after();
  if (LOFT_LIKELY(fresh != nullptr)) return fresh;
  // A retry is of no use (a) over a region, which cannot grow; (b) for a foreign object, which was
  // reported.
  if (heap.over_region() || !heap.contains(p)) return os::out_of_memory();
  reclaim();
  fresh = heap.reallocate(call, p, size, alignment);
  return fresh != nullptr ? fresh : refuse(size);
}

void free_in(const char* call, loft_heap_t* handle, void* p) {
  UserHeap& heap = checked_heap(call, handle);
  if (p == nullptr) return;
  heap.free(call, p);
  background::look_after();
}

[[noreturn]] LOFT_COLD void report_size(const void* p, size_t size, size_t usable) {
  os::fault(Text() << "loft_heap_free_sized of " << p << " as an object of " << uint64_t{size}
                   << " bytes: its place has " << uint64_t{usable});
}

void* invalid_alignment() {
  errno = EINVAL;
  return nullptr;
}

}  // namespace

}  // namespace loft

loft_heap_t* loft_heap_create() noexcept {
  loft::background::look_after();
  return loft::handle_of(loft::UserHeap::create());
}

loft_heap_t* loft_heap_create_over(void* region, size_t bytes) noexcept {
  const auto base = reinterpret_cast<uintptr_t>(region);
  if (region == nullptr || base + bytes < base || loft::UserHeap::units_in(base, bytes) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  return loft::handle_of(loft::UserHeap::create_over(base, bytes));
}

void loft_heap_destroy(loft_heap_t* heap) noexcept {
  if (heap == nullptr) return;
  loft::checked_heap("loft_heap_destroy", heap).destroy();
  loft::background::look_after();
}

void* loft_heap_malloc(loft_heap_t* heap, size_t size) noexcept {
  return loft::allocate_in("loft_heap_malloc", heap, size, loft::kAlignment, false);
}

void* loft_heap_calloc(loft_heap_t* heap, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return loft::allocate_in("loft_heap_calloc", heap, bytes, loft::kAlignment, true);
}

void* loft_heap_aligned_alloc(loft_heap_t* heap, size_t alignment, size_t size) noexcept {
  if (!loft::is_power_of_two(alignment)) return loft::invalid_alignment();
  return loft::allocate_in("loft_heap_aligned_alloc", heap, size,
                           loft::most(alignment, loft::kAlignment), false);
}

void* loft_heap_aligned_calloc(loft_heap_t* heap, size_t alignment, size_t count,
                               size_t size) noexcept {
  size_t bytes = 0;
  if (!loft::is_power_of_two(alignment)) return loft::invalid_alignment();
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return loft::allocate_in("loft_heap_aligned_calloc", heap, bytes,
                           loft::most(alignment, loft::kAlignment), true);
}

void* loft_heap_realloc(loft_heap_t* heap, void* object, size_t size) noexcept {
  constexpr const char* kCall = "loft_heap_realloc";
  if (object == nullptr) return loft::allocate_in(kCall, heap, size, loft::kAlignment, false);
  if (size == 0) {
    loft::free_in(kCall, heap, object);
    return nullptr;
  }
  return loft::reallocate_in(kCall, heap, object, size, loft::kAlignment);
}

void* loft_heap_aligned_realloc(loft_heap_t* heap, void* object, size_t alignment,
                                size_t size) noexcept {
  constexpr const char* kCall = "loft_heap_aligned_realloc";
  if (!loft::is_power_of_two(alignment)) return loft::invalid_alignment();
  alignment = loft::most(alignment, loft::kAlignment);
  if (object == nullptr) return loft::allocate_in(kCall, heap, size, alignment, false);
  if (size == 0) {
    loft::free_in(kCall, heap, object);
    return nullptr;
  }
  return loft::reallocate_in(kCall, heap, object, size, alignment);
}

int loft_heap_expand(loft_heap_t* heap, void* object, size_t size) noexcept {
  constexpr const char* kCall = "loft_heap_expand";
  loft::UserHeap& checked = loft::checked_heap(kCall, heap);
  if (object == nullptr) return 0;
  const bool resized = checked.expand(kCall, object, size + (size == 0));
  loft::background::look_after();
  return resized ? 1 : 0;
}

size_t loft_heap_good_size(const loft_heap_t* heap, size_t size) noexcept {
  return loft::checked_heap("loft_heap_good_size", heap).good_size(size + (size == 0));
}

void loft_heap_free(loft_heap_t* heap, void* object) noexcept {
  loft::free_in("loft_heap_free", heap, object);
}

void loft_heap_free_sized(loft_heap_t* heap, void* object, size_t size) noexcept {
  constexpr const char* kCall = "loft_heap_free_sized";
  if (loft::get(loft::options.hardened) != loft::kHardenedOff && object != nullptr) {
    const size_t usable = loft::checked_heap(kCall, heap).usable_size(kCall, object);
    if (size > usable) loft::report_size(object, size, usable);
  }
  loft::free_in(kCall, heap, object);
}

size_t loft_heap_usable_size(const loft_heap_t* heap, const void* object) noexcept {
  constexpr const char* kCall = "loft_heap_usable_size";
  const loft::UserHeap& checked = loft::checked_heap(kCall, heap);
  return object == nullptr ? 0 : checked.usable_size(kCall, object);
}

int loft_heap_contains(const loft_heap_t* heap, const void* address) noexcept {
  return loft::checked_heap("loft_heap_contains", heap).contains(address) ? 1 : 0;
}

size_t loft_heap_visit_objects(const loft_heap_t* heap, loft_visit_t visit,
                               void* context) noexcept {
  return loft::visit_objects(&loft::checked_heap("loft_heap_visit_objects", heap), visit, context);
}

int loft_heap_stats(const loft_heap_t* heap, loft_heap_stats_t* stats) noexcept {
  const uint64_t asked = stats->struct_size;
  if (asked < 2 * sizeof(uint64_t)) return EINVAL;
  const loft::UserHeap::Totals totals = loft::checked_heap("loft_heap_stats", heap).totals();
  loft_heap_stats_t all = {};
  all.struct_size = asked < sizeof(all) ? asked : sizeof(all);
  all.live_objects = totals.live_objects;
  all.live_bytes = totals.live_bytes;
  all.capacity_bytes = totals.capacity_bytes;
  all.metadata_bytes = totals.metadata_bytes;
  memcpy(stats, &all, all.struct_size);
  return 0;
}
