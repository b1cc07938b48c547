// The C library's and C++'s own names, for an engine that is preloaded or linked in libc's place.
#include <malloc.h>
#include <stddef.h>

#include <new>

#include "api/new_failure.h"
#include "base/macros.h"
#include "engine/calls.h"

namespace {

using loft::Maker;

void* allocate(size_t size, size_t alignment, Maker) {
  return alignment == 0 ? engine::checked_allocate(size)
                        : engine::checked_allocate(alignment, size);
}

void* make(size_t size, size_t alignment, Maker maker) {
  void* p = allocate(size, alignment, maker);
  return LOFT_LIKELY(p != nullptr) ? p : loft::retry_with(size, alignment, maker, allocate);
}
void* make_nothrow(size_t size, size_t alignment, Maker maker) {
  void* p = allocate(size, alignment, maker);
  return LOFT_LIKELY(p != nullptr) ? p : loft::retry_nothrow_with(size, alignment, maker, allocate);
}

}  // namespace

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

using loft::Maker;
using std::align_val_t;
using std::nothrow_t;

LOFT_EXPORT void* operator new(size_t n) { return make(n, 0, Maker::kNew); }
LOFT_EXPORT void* operator new[](size_t n) { return make(n, 0, Maker::kNewArray); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a) {
  return make(n, static_cast<size_t>(a), Maker::kNewAligned);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a) {
  return make(n, static_cast<size_t>(a), Maker::kNewArrayAligned);
}
LOFT_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept {
  return make_nothrow(n, 0, Maker::kNew);
}
LOFT_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept {
  return make_nothrow(n, 0, Maker::kNewArray);
}
LOFT_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make_nothrow(n, static_cast<size_t>(a), Maker::kNewAligned);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make_nothrow(n, static_cast<size_t>(a), Maker::kNewArrayAligned);
}

#define ENGINE_DELETE(...)                                                                  \
  LOFT_EXPORT void operator delete(void* p __VA_ARGS__) noexcept { engine::deallocate(p); } \
  LOFT_EXPORT void operator delete[](void* p __VA_ARGS__) noexcept { engine::deallocate(p); }

ENGINE_DELETE()
ENGINE_DELETE(, size_t)
ENGINE_DELETE(, align_val_t)
ENGINE_DELETE(, size_t, align_val_t)
ENGINE_DELETE(, const nothrow_t&)
ENGINE_DELETE(, align_val_t, const nothrow_t&)
#undef ENGINE_DELETE
