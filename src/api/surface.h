// The corners of the C library's contract, once for malloc.cc and loft.cc: what glibc documents for
// zero sizes, overflowing products and odd alignments, laid over the functions of front/allocate.h.
// Everything here may set errno; failure is nullptr.
#pragma once

#include <cstddef>

#include "base/macros.h"
#include "front/allocate.h"
#include "os/os.h"

namespace loft {

inline void* allocate_array(size_t count, size_t size) {
  size_t bytes = 0;
  if (LOFT_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return os::out_of_memory();
  return allocate_zeroed(bytes);
}

// realloc, which is malloc and free at its two ends.
void* resize_to_nothing(void* object);  // frees, returns nullptr
inline void* resize(void* object, size_t size) {
  if (object == nullptr) return allocate(size);
  if (LOFT_UNLIKELY(size == 0)) return resize_to_nothing(object);
  return reallocate(object, size);
}

inline void* resize_array(void* object, size_t count, size_t size) {
  size_t bytes = 0;
  if (LOFT_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return os::out_of_memory();
  return resize(object, bytes);
}

// Functions that valgrind does not replace go by way of those that it does, so that one of the two
// has all objects: called as anybody calls them, and not inlined, which would get past it. (What
// loft_malloc and its kin return stays loft's own; valgrind's free takes none of it.)
template <class Function>
LOFT_ALWAYS_INLINE Function* replaceable(Function* function) {
  LOFT_FORGET(function);
  return function;
}

// aligned_alloc: EINVAL for an alignment that is no power of two.
void* allocate_aligned_strict(size_t alignment, size_t size);

// memalign: rounds such an alignment up; EINVAL only when no power of two is as large.
void* allocate_aligned_rounded(size_t alignment, size_t size);

// posix_memalign: 0, EINVAL or ENOMEM; errno stays, and *object too unless the result is 0.
int allocate_aligned_posix(void** object, size_t alignment, size_t size);

// valloc; and what pvalloc asks of it, for more than there can be as much.
void* allocate_at_page(size_t size);
size_t in_whole_pages(size_t size);

}  // namespace loft
