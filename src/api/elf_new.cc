// Every operator new and delete. All replace the C++ library's, so that each form of delete accepts
// objects from each form of new. new_failure.h has the behaviour without memory.
#include <new>

#include "api/new_failure.h"
#include "base/macros.h"
#include "front/allocate.h"

namespace {

using loft::Maker;
using Retry = void* (*)(size_t, Maker);

// A slow path of malloc that calls the new_handler before it returns nullptr.
template <loft::AllocateSlow kSlow, Maker kMaker, Retry kRetry>
LOFT_NOINLINE void* slow_then_retry(size_t size) {
  void* p = kSlow(size);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, kMaker);
}

template <Maker kMaker, Retry kRetry>
LOFT_ALWAYS_INLINE void* make(size_t size) {
  return loft::allocate<slow_then_retry<loft::allocate_beyond_table<kMaker>, kMaker, kRetry>,
                        slow_then_retry<loft::allocate_from_empty<kMaker>, kMaker, kRetry>>(size);
}

template <Maker kMaker, void* (*kRetry)(size_t, std::align_val_t, Maker)>
LOFT_ALWAYS_INLINE void* make(size_t size, std::align_val_t alignment) {
  constexpr Maker kAligned = kMaker == Maker::kNew ? Maker::kNewAligned : Maker::kNewArrayAligned;
  void* p = loft::allocate_aligned(static_cast<size_t>(alignment), size, kAligned);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, alignment, kAligned);
}

}  // namespace

using std::align_val_t;
using std::nothrow_t;

LOFT_EXPORT void* operator new(size_t n) { return make<Maker::kNew, loft::new_retry>(n); }
LOFT_EXPORT void* operator new[](size_t n) { return make<Maker::kNewArray, loft::new_retry>(n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a) {
  return make<Maker::kNew, loft::new_retry>(n, a);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a) {
  return make<Maker::kNewArray, loft::new_retry>(n, a);
}

LOFT_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept {
  return make<Maker::kNew, loft::new_retry_nothrow>(n);
}
LOFT_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept {
  return make<Maker::kNewArray, loft::new_retry_nothrow>(n);
}
LOFT_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make<Maker::kNew, loft::new_retry_nothrow>(n, a);
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make<Maker::kNewArray, loft::new_retry_nothrow>(n, a);
}

#define LOFT_DELETE(maker, array_maker, ...)                         \
  LOFT_EXPORT void operator delete(void* p __VA_ARGS__) noexcept {   \
    loft::deallocate_as(Maker::maker, p);                            \
  }                                                                  \
  LOFT_EXPORT void operator delete[](void* p __VA_ARGS__) noexcept { \
    loft::deallocate_as(Maker::array_maker, p);                      \
  }

LOFT_DELETE(kNew, kNewArray)
LOFT_DELETE(kNew, kNewArray, , const nothrow_t&)
LOFT_DELETE(kNewAligned, kNewArrayAligned, , align_val_t)
LOFT_DELETE(kNewAligned, kNewArrayAligned, , align_val_t, const nothrow_t&)
#undef LOFT_DELETE

#define LOFT_SIZED_DELETE(maker, array_maker, ...)                             \
  LOFT_EXPORT void operator delete(void* p, size_t n __VA_ARGS__) noexcept {   \
    loft::deallocate_sized(Maker::maker, p, n);                                \
  }                                                                            \
  LOFT_EXPORT void operator delete[](void* p, size_t n __VA_ARGS__) noexcept { \
    loft::deallocate_sized(Maker::array_maker, p, n);                          \
  }

LOFT_SIZED_DELETE(kNew, kNewArray)
LOFT_SIZED_DELETE(kNewAligned, kNewArrayAligned, , align_val_t)
#undef LOFT_SIZED_DELETE
