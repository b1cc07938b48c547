// Every operator new and delete. All of them replace the C++ library's, so that each form of delete
// meets objects from each form of new. What happens when memory runs out is in new_failure.h.
#include <new>

#include "api/new_failure.h"
#include "base/macros.h"
#include "cache/allocate.h"

namespace {

LOFT_ALWAYS_INLINE void* make(size_t size) {
  void* p = loft::allocate(size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry(size);
}

LOFT_ALWAYS_INLINE void* make(size_t size, std::align_val_t alignment) {
  void* p = loft::allocate_aligned(static_cast<size_t>(alignment), size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry(size, alignment);
}

LOFT_ALWAYS_INLINE void* try_make(size_t size) {
  void* p = loft::allocate(size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry_nothrow(size);
}

LOFT_ALWAYS_INLINE void* try_make(size_t size, std::align_val_t alignment) {
  void* p = loft::allocate_aligned(static_cast<size_t>(alignment), size);
  return LOFT_LIKELY(p != nullptr) ? p : loft::new_retry_nothrow(size, alignment);
}

}  // namespace

using std::align_val_t;
using std::nothrow_t;

LOFT_EXPORT void* operator new(size_t n) { return make(n); }
LOFT_EXPORT void* operator new[](size_t n) { return make(n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a) { return make(n, a); }
LOFT_EXPORT void* operator new[](size_t n, align_val_t a) { return make(n, a); }

LOFT_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept { return try_make(n); }
LOFT_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept { return try_make(n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return try_make(n, a);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return try_make(n, a);
}

#define LOFT_DELETE(...)                                                                  \
  LOFT_EXPORT void operator delete(void* p __VA_ARGS__) noexcept { loft::deallocate(p); } \
  LOFT_EXPORT void operator delete[](void* p __VA_ARGS__) noexcept { loft::deallocate(p); }

LOFT_DELETE()
LOFT_DELETE(, size_t)
LOFT_DELETE(, align_val_t)
LOFT_DELETE(, size_t, align_val_t)
LOFT_DELETE(, const nothrow_t&)
LOFT_DELETE(, align_val_t, const nothrow_t&)
#undef LOFT_DELETE
