// FreeBSD's allocation functions, its additions to C's among them. Linked into a program or
// preloaded, they replace libc's own: the loader finds them first, and libc calls malloc and free
// by these names, too. The non-standard functions of its own malloc (malloc_np.h) are here as well,
// so that what they return can be freed. Contracts are those of malloc(3) and jemalloc(3).
#include <malloc_np.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/surface.h"
#include "base/bits.h"
#include "base/macros.h"
#include "front/allocate.h"

namespace {

// Of the last argument of mallocx and its relatives. What else it may say is where to allocate,
// which is advice.
struct Wishes {
  size_t alignment;
  bool zeroed;
};
Wishes wishes_of(int flags) {
  constexpr unsigned kLog = 0x3f, kZero = 0x40;
  const auto bits = static_cast<unsigned>(flags);
  return {size_t{1} << (bits & kLog), (bits & kZero) != 0};
}

void clear(void* object, size_t from, size_t end) {
  if (from < end) __builtin_memset(static_cast<char*>(object) + from, 0, end - from);
}

void* allocate_as_wished(size_t size, int flags) {
  const Wishes wishes = wishes_of(flags);
  void* const object = loft::allocate_aligned(wishes.alignment, size);
  if (object != nullptr && wishes.zeroed) clear(object, 0, size);
  return object;
}

}  // namespace

extern "C" {

LOFT_EXPORT void* malloc(size_t size) { return loft::allocate(size); }

LOFT_EXPORT void free(void* object) { loft::deallocate(object); }

LOFT_EXPORT void* calloc(size_t count, size_t size) { return loft::allocate_array(count, size); }

LOFT_EXPORT void* realloc(void* object, size_t size) { return loft::resize(object, size); }

LOFT_EXPORT void* reallocarray(void* object, size_t count, size_t size) {
  return loft::resize_array(object, count, size);
}

LOFT_EXPORT void* reallocf(void* object, size_t size) {
  void* const moved = loft::resize(object, size);
  if (moved == nullptr && size != 0) loft::deallocate(object);
  return moved;
}

LOFT_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  return loft::allocate_aligned_strict(alignment, size);
}

LOFT_EXPORT int posix_memalign(void** object, size_t alignment, size_t size) {
  return loft::allocate_aligned_posix(object, alignment, size);
}

LOFT_EXPORT void* memalign(size_t alignment, size_t size) {
  return loft::allocate_aligned_rounded(alignment, size);
}

LOFT_EXPORT void* valloc(size_t size) { return loft::allocate_at_page(size); }

LOFT_EXPORT size_t malloc_usable_size(const void* object) { return loft::usable_size(object); }

LOFT_EXPORT void* mallocx(size_t size, int flags) { return allocate_as_wished(size, flags); }

LOFT_EXPORT void* rallocx(void* object, size_t size, int flags) {
  const Wishes wishes = wishes_of(flags);
  const size_t before = loft::usable_size(object);
  void* moved = nullptr;
  if (wishes.alignment <= alignof(max_align_t)) {
    moved = loft::reallocate(object, size);
  } else if ((moved = loft::allocate_aligned(wishes.alignment, size)) != nullptr) {
    __builtin_memcpy(moved, object, loft::least(before, size));
    loft::deallocate(object);
  }
  if (moved != nullptr && wishes.zeroed) clear(moved, before, loft::usable_size(moved));
  return moved;
}

// Nothing is resized in place: the size stays.
LOFT_EXPORT size_t xallocx(void* object, size_t, size_t, int) { return loft::usable_size(object); }

LOFT_EXPORT size_t sallocx(const void* object, int) { return loft::usable_size(object); }

LOFT_EXPORT void dallocx(void* object, int) { loft::deallocate(object); }

LOFT_EXPORT void sdallocx(void* object, size_t, int) { loft::deallocate(object); }

}  // extern "C"
