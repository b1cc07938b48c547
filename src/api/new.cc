// Every operator new and delete. All replace the C++ library's, so that each form of delete accepts
// objects from each form of new. new_failure.h has the behaviour without memory.
#include <new>

#include "api/new_failure.h"
#include "base/macros.h"
#include "front/allocate.h"

namespace {

using Retry = void* (*)(size_t);

// A slow path of malloc that calls the new_handler before it returns nullptr.
template <loft::AllocateSlow kSlow, Retry kRetry>
LOFT_NOINLINE void* slow_then_retry(size_t size) {
  void* p = kSlow(size);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size);
}

template <Retry kRetry>
LOFT_ALWAYS_INLINE void* make(size_t size) {
  return loft::allocate<slow_then_retry<loft::allocate_beyond_table, kRetry>,
                        slow_then_retry<loft::allocate_from_empty, kRetry>>(size);
}

template <void* (*kRetry)(size_t, std::align_val_t)>
LOFT_ALWAYS_INLINE void* make(size_t size, std::align_val_t alignment) {
  void* p = loft::allocate_aligned(static_cast<size_t>(alignment), size);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, alignment);
}

}  // namespace

using std::align_val_t;
using std::nothrow_t;

LOFT_EXPORT void* operator new(size_t n) { return make<loft::new_retry>(n); }
LOFT_EXPORT void* operator new[](size_t n) { return make<loft::new_retry>(n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a) { return make<loft::new_retry>(n, a); }
LOFT_EXPORT void* operator new[](size_t n, align_val_t a) { return make<loft::new_retry>(n, a); }

LOFT_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept {
  return make<loft::new_retry_nothrow>(n);
}
LOFT_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept {
  return make<loft::new_retry_nothrow>(n);
}
LOFT_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make<loft::new_retry_nothrow>(n, a);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make<loft::new_retry_nothrow>(n, a);
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
