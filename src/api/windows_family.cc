#include "api/windows_family.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include "arena/user_heap.h"
#include "base/bits.h"
#include "cache/object.h"
#include "front/front.h"
#include "hard/nothing.h"
#include "os/fault.h"
#include "os/windows_placed.h"
#include "space/pagemap.h"

namespace loft::family {

namespace {

void* invalid(const Runtime& runtime) {
  *runtime.error_number() = EINVAL;
  return nullptr;
}

bool multiply(const Runtime& runtime, size_t count, size_t size, size_t* bytes) {
  if (!__builtin_mul_overflow(count, size, bytes)) return true;
  no_memory(runtime);
  return false;
}

// Of an aligned object, which may begin behind its place (`allocate_aligned` with an offset).
ObjectRange place_of(void* p) {
  const ObjectRange place = object_of(p);
  return place.start == nullptr ? ObjectRange{p, 0} : place;
}
// What the program may use of it from there.
size_t bytes_from(void* p) {
  const ObjectRange place = object_of(p);
  if (place.start == nullptr) return 0;
  const size_t size = front::in_use->size_in(place.start, place.size);
  const auto before = static_cast<size_t>(static_cast<char*>(p) - static_cast<char*>(place.start));
  return size - least(before, size);
}

void zero_from(void* p, size_t from, size_t to) {
  if (to > from) memset(static_cast<char*>(p) + from, 0, to - from);
}

}  // namespace

bool is_loft(const void* p) {
  if (LOFT_LIKELY(pagemap.contains(p))) {
    return pagemap.of(p).word() != 0 || os::is_no_other_memory(p);
  }
  return hard::is_nothing(p) || UserHeap::in_a_region(p);
}

LOFT_COLD void* no_memory(const Runtime& runtime) {
  *runtime.error_number() = ENOMEM;
  return nullptr;
}

void* allocate_zeroed_to_the_end(const Runtime& runtime, size_t count, size_t size) {
  void* const p = allocate_array(count, size);
  if (p == nullptr) return no_memory(runtime);
  zero_from(p, count * size, usable_size(p));
  return p;
}

void free_slow(const Runtime& runtime, void* p) {
  if (p == nullptr) return;
  if (LOFT_LIKELY(is_loft(p))) return deallocate_slow(p);
  runtime.free(p);
}

void* resize(const Runtime& runtime, void* p, size_t size) {
  if (p == nullptr) return allocate_or_tell(runtime, size);
  if (LOFT_LIKELY(is_loft(p))) {
    void* const moved = loft::resize(p, size);
    return moved != nullptr || size == 0 ? moved : no_memory(runtime);
  }
  if (size == 0) {
    runtime.free(p);
    return nullptr;
  }
  const size_t present = runtime.msize(p);
  void* const moved = allocate_or_tell(runtime, size);
  if (moved == nullptr) return nullptr;
  memcpy(moved, p, least(present, size));
  runtime.free(p);
  return moved;
}

void* resize_zeroed(const Runtime& runtime, void* p, size_t count, size_t size) {
  size_t bytes = 0;
  if (p == nullptr) return allocate_zeroed_to_the_end(runtime, count, size);
  if (!multiply(runtime, count, size, &bytes)) return nullptr;
  const size_t present = size_of(runtime, p);
  void* const moved = resize(runtime, p, bytes);
  // Also what it has given up: it may get it back.
  if (moved != nullptr) zero_from(moved, least(present, bytes), usable_size(moved));
  return moved;
}

void* expand(const Runtime& runtime, void* p, size_t size) {
  if (p == nullptr) return invalid(runtime);
  if (!is_loft(p)) return runtime.expand(p, size);
  if (loft::expand("_expand", p, most<size_t>(size, 1)) || size <= usable_size(p)) return p;
  return no_memory(runtime);
}

size_t size_of(const Runtime& runtime, void* p) {
  if (p == nullptr) {
    invalid(runtime);
    return SIZE_MAX;
  }
  return is_loft(p) ? usable_size(p) : runtime.msize(p);
}

void* allocate_aligned(const Runtime& runtime, size_t size, size_t alignment, size_t offset) {
  if (!is_power_of_two(alignment) || (offset != 0 && offset >= size)) return invalid(runtime);
  const size_t shift = (alignment - offset % alignment) % alignment;
  size_t bytes = 0;
  if (__builtin_add_overflow(size, shift, &bytes)) return no_memory(runtime);
  auto* const place = static_cast<char*>(loft::allocate_aligned(alignment, bytes));
  return place == nullptr ? no_memory(runtime) : place + shift;
}

void* resize_aligned(const Runtime& runtime, void* p, size_t size, size_t alignment,
                     size_t offset) {
  if (p == nullptr) return allocate_aligned(runtime, size, alignment, offset);
  if (size == 0) {
    free_aligned(runtime, p);
    return nullptr;
  }
  const size_t present = size_of_aligned(runtime, p, alignment, offset);
  void* const moved = allocate_aligned(runtime, size, alignment, offset);
  if (moved == nullptr) return nullptr;
  memcpy(moved, p, least(present, size));
  free_aligned(runtime, p);
  return moved;
}

void* resize_aligned_zeroed(const Runtime& runtime, void* p, size_t count, size_t size,
                            size_t alignment, size_t offset) {
  size_t bytes = 0;
  if (!multiply(runtime, count, size, &bytes)) return nullptr;
  const size_t present = p == nullptr ? 0 : size_of_aligned(runtime, p, alignment, offset);
  void* const moved = resize_aligned(runtime, p, bytes, alignment, offset);
  if (moved != nullptr) zero_from(moved, least(present, bytes), bytes_from(moved));
  return moved;
}

void free_aligned(const Runtime& runtime, void* p) {
  if (p == nullptr) return;
  if (!is_loft(p)) return runtime.aligned_free(p);
  deallocate(place_of(p).start);
}

size_t size_of_aligned(const Runtime& runtime, void* p, size_t alignment, size_t offset) {
  if (p == nullptr) {
    invalid(runtime);
    return SIZE_MAX;
  }
  return is_loft(p) ? bytes_from(p) : runtime.aligned_msize(p, alignment, offset);
}

LOFT_COLD int refuse_to_walk(const Runtime& runtime) {
  // Relaxed: it is told once or, by threads that are about to at the same time, twice.
  static constinit Atomic<bool> told{false};
  if (!told.exchange(true, memory_order_relaxed)) {
    os::report(Text() << "a heap is not walked: loft's objects are on none of Windows' heaps; "
                         "loft_visit_objects visits them");
  }
  *runtime.error_number() = ENOSYS;
  return _HEAPEND;
}

}  // namespace loft::family
