// realloc with an alignment, and what is told of lengths.
#include "cache/object.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/os.h"

namespace loft {

namespace {

// Of an object whose pages can go to another place, at the start of a granule.
void* resize_pages(void* p, size_t alignment, size_t size) {
  if (alignment > kGranule || size <= kSmallMax || size > PTRDIFF_MAX - kGranule) return nullptr;
  if (policy().clears || !pagemap.contains(p)) return nullptr;
  const Entry entry = pagemap.of(p);
  if (entry.bin() != kLarge || large::at(entry)->guarded) return nullptr;
  return resize_large(large::at(entry), size, large::resize);
}

}  // namespace

bool expand(const char* call, void* p, size_t size) { return policy().expand(call, p, size); }

size_t good_size(size_t alignment, size_t size) {
  return policy().good_size(alignment, most<size_t>(size, 1));
}

void* reallocate_aligned(void* p, size_t alignment, size_t size) {
  constexpr const char* kCall = "loft_aligned_realloc";
  if (alignment <= kAlignment) return reallocate(p, size);
  const size_t held = policy().usable_size(kCall, p);
  // Reported; misuse=continue goes on. An object of no bytes is one.
  if (held == 0 && !policy().is_object(p)) {
    return os::out_of_memory();
  }
  if (pagemap.contains(p) && pagemap.of(p).bin() == kGuest) {
    return reallocate_guest(kCall, p, pagemap.of(p), size, alignment);
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
