// The C library's and C++'s own names, for an engine that is preloaded or linked in libc's place.
#include <malloc.h>
#include <stddef.h>

#include "api/new_failure.h"
#include "base/macros.h"
#include "engine/calls.h"

namespace {

void* allocate(size_t size, size_t alignment, loft::Maker) {
  return alignment == 0 ? engine::checked_allocate(size)
                        : engine::checked_allocate(alignment, size);
}

void deallocate(void* p) { engine::deallocate(p); }

}  // namespace

#include "engine/operators.h"

extern "C" {

LOFT_EXPORT void* malloc(size_t size) noexcept { return engine::checked_allocate(size); }
LOFT_EXPORT void free(void* p) noexcept { engine::deallocate(p); }
LOFT_EXPORT void cfree(void* p) noexcept { engine::deallocate(p); }
LOFT_EXPORT void free_sized(void* p, size_t) noexcept { engine::deallocate(p); }
LOFT_EXPORT void free_aligned_sized(void* p, size_t, size_t) noexcept { engine::deallocate(p); }
LOFT_EXPORT void* calloc(size_t count, size_t size) noexcept {
  return engine::allocate_array(count, size);
}
LOFT_EXPORT void* realloc(void* p, size_t size) noexcept { return engine::resize(p, size); }
LOFT_EXPORT void* reallocarray(void* p, size_t count, size_t size) noexcept {
  return engine::resize_array(p, count, size);
}
LOFT_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return engine::allocate_strictly(alignment, size);
}
LOFT_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  return engine::allocate_loosely(alignment, size);
}
LOFT_EXPORT int posix_memalign(void** to, size_t alignment, size_t size) noexcept {
  return engine::allocate_to(to, alignment, size);
}
LOFT_EXPORT void* valloc(size_t size) noexcept { return engine::allocate_pages(size); }
LOFT_EXPORT void* pvalloc(size_t size) noexcept { return engine::allocate_whole_pages(size); }
LOFT_EXPORT size_t malloc_usable_size(void* p) noexcept { return engine::usable(p); }

}  // extern "C"
