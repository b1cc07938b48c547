// The edge cases of the C library's contract, for malloc.cc and loft.cc: what glibc documents for
// zero sizes, overflowing products and odd alignments, on top of malloc/allocate.h. Functions may
// set errno; nullptr means failure.
#pragma once

#include <cstddef>

#include "base/macros.h"
#include "malloc/allocate.h"
#include "os/os.h"

namespace loft {

inline void* allocate_array(size_t count, size_t size) {
  size_t bytes = 0;
  if (LOFT_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return os::out_of_memory();
  return allocate_zeroed(bytes);
}

// realloc, which is malloc for a null object and free for size 0.
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

// aligned_alloc: EINVAL if `alignment` is not a power of two.
void* allocate_aligned_strict(size_t alignment, size_t size);

// memalign: rounds such an alignment up; EINVAL only if no power of two is large enough.
void* allocate_aligned_rounded(size_t alignment, size_t size);

// calloc and realloc with an alignment, as aligned_alloc takes it.
void* allocate_aligned_array(size_t alignment, size_t count, size_t size);
void* resize_aligned(void* object, size_t alignment, size_t size);

// posix_memalign: 0, EINVAL or ENOMEM. Keeps errno, and *object unless the result is 0.
int allocate_aligned_posix(void** object, size_t alignment, size_t size);

// valloc; and the size that pvalloc passes to it. Above PTRDIFF_MAX it is `size` itself.
void* allocate_at_page(size_t size);
size_t in_whole_pages(size_t size);

}  // namespace loft
