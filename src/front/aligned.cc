// realloc with an alignment, and what is told of lengths.
#include "arena/user_heap.h"
#include "cache/object.h"
#include "front/allocate.h"
#include "front/front.h"
#include "hard/nothing.h"
#include "os/os.h"

namespace loft {

namespace {

// Of an object whose pages can go to another place, at the start of a granule.
void* resize_pages(void* p, size_t alignment, size_t size) {
  if (alignment > kGranule || size <= kSmallMax || size > PTRDIFF_MAX - kGranule) return nullptr;
  if (front::in_use->clears || !pagemap.contains(p)) return nullptr;
  const Entry entry = pagemap.of(p);
  if (entry.bin() != kLarge || large::at(entry)->guarded) return nullptr;
  return front::resize_large(large::at(entry), size);
}

// nullptr: it is none that lies in a heap of the program's own.
Extent* extent_of(const void* p) {
  if (!pagemap.contains(p)) return nullptr;
  const Entry entry = pagemap.of(p);
  return entry.bin() == kExtent ? Shard::extent_at(entry) : nullptr;
}

}  // namespace

bool expand(const char* call, void* p, size_t size) { return front::in_use->expand(call, p, size); }

size_t good_size(size_t alignment, size_t size) {
  return front::in_use->good_size(alignment, most<size_t>(size, 1));
}

void* reallocate_aligned(void* p, size_t alignment, size_t size) {
  constexpr const char* kCall = "loft_aligned_realloc";
  if (alignment <= kAlignment) return reallocate(p, size);
  const size_t held = front::in_use->usable_size(kCall, p);
  // Reported; misuse=continue goes on. An object of no bytes is one.
  if (held == 0 && !hard::is_nothing(p) && object_of(p).start == nullptr) {
    return os::out_of_memory();
  }
  if (Extent* const extent = extent_of(p); extent != nullptr) {
    void* resized = UserHeap::reallocate(kCall, extent, p, size, alignment);
    if (LOFT_LIKELY(resized != nullptr)) return resized;
    reclaim();
    resized = UserHeap::reallocate(kCall, extent, p, size, alignment);
    return resized != nullptr ? resized : refuse(size);
  }
  const bool is_aligned = reinterpret_cast<uintptr_t>(p) % alignment == 0;
  const bool is_for_slab = size <= kSmallMax && held > kSmallMax;
  if (is_aligned && !is_for_slab && expand(kCall, p, size)) return p;
  if (void* const resized = resize_pages(p, alignment, size); resized != nullptr) return resized;
  void* const fresh = allocate_aligned(alignment, size);
  if (fresh == nullptr) return nullptr;
  __builtin_memcpy(fresh, p, least(held, size));
  deallocate(p);
  return fresh;
}

}  // namespace loft
