// Operators new and delete of another allocator than loft. For the one file of a library that has
// its malloc, which declares before, in an unnamed namespace:
//
//     void* allocate(size_t size, size_t alignment, loft::Maker maker);  // alignment 0: none
//     void deallocate(void* p);
#pragma once

#include <new>

#include "api/new_failure.h"
#include "base/macros.h"

namespace {

void* make(size_t size, size_t alignment, loft::Maker maker) {
  void* p = allocate(size, alignment, maker);
  return LOFT_LIKELY(p != nullptr) ? p : loft::retry_with(size, alignment, maker, allocate);
}
void* make_nothrow(size_t size, size_t alignment, loft::Maker maker) {
  void* p = allocate(size, alignment, maker);
  return LOFT_LIKELY(p != nullptr) ? p : loft::retry_nothrow_with(size, alignment, maker, allocate);
}

}  // namespace

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

#define PAPERS_DELETE(...)                                                          \
  LOFT_EXPORT void operator delete(void* p __VA_ARGS__) noexcept { deallocate(p); } \
  LOFT_EXPORT void operator delete[](void* p __VA_ARGS__) noexcept { deallocate(p); }

PAPERS_DELETE()
PAPERS_DELETE(, size_t)
PAPERS_DELETE(, align_val_t)
PAPERS_DELETE(, size_t, align_val_t)
PAPERS_DELETE(, const nothrow_t&)
PAPERS_DELETE(, align_val_t, const nothrow_t&)
#undef PAPERS_DELETE
