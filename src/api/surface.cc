#include "api/surface.h"

#include <errno.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/keep.h"

namespace loft {

namespace {

void* invalid_argument() {
  errno = EINVAL;
  return nullptr;
}

}  // namespace

void* resize_to_nothing(void* object) {
  deallocate(object);
  return nullptr;
}

void* allocate_aligned_strict(size_t alignment, size_t size) {
  if (!is_power_of_two(alignment)) return invalid_argument();
  return allocate_aligned(alignment, size);
}

void* allocate_aligned_array(size_t alignment, size_t count, size_t size) {
  size_t bytes = 0;
  if (!is_power_of_two(alignment)) return invalid_argument();
  if (__builtin_mul_overflow(count, size, &bytes)) return os::out_of_memory();
  return allocate_aligned_zeroed(alignment, bytes);
}

void* resize_aligned(void* object, size_t alignment, size_t size) {
  if (!is_power_of_two(alignment)) return invalid_argument();
  if (object == nullptr) return allocate_aligned(alignment, size);
  if (size == 0) return resize_to_nothing(object);
  return reallocate_aligned(object, alignment, size);
}

void* allocate_aligned_rounded(size_t alignment, size_t size) {
  if (alignment > SIZE_MAX / 2 + 1) return invalid_argument();
  return allocate_aligned(std::bit_ceil(alignment), size);
}

int allocate_aligned_posix(void** object, size_t alignment, size_t size) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const KeepErrno keep;
  void* p = allocate_aligned(alignment, size);
  if (p == nullptr) return ENOMEM;
  *object = p;
  return 0;
}

void* allocate_at_page(size_t size) { return allocate_aligned(os::page_size(), size); }

size_t in_whole_pages(size_t size) {
  const size_t page = os::page_size();
  if (size > PTRDIFF_MAX) return size;
  return size == 0 ? page : round_up(size, page);
}

}  // namespace loft
