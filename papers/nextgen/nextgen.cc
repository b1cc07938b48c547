// NextGen-Malloc (HotOS '23), Pseudo Code 1, as it is printed: a dedicated thread executes every
// malloc and free (mailbox.h).
//
// A library of its own, libloft-nextgen.so: loft's floors serve as the paper's normal_malloc, which
// nobody but the dedicated thread calls, and whose metadata lies apart from the objects.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "api/new_failure.h"
#include "api/surface.h"
#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "malloc/allocate.h"
#include "nextgen/mailbox.h"
#include "os/os.h"

namespace {

// A thread that has to serve itself does what the room would do.
void* call(nextgen::Work work, uintptr_t first, uintptr_t second) {
  nextgen::Mailbox* box = nextgen::box_of_mine();
  return LOFT_LIKELY(box != nullptr) ? nextgen::ask(box, work, first, second) : work(first, second);
}

void* allocate_in_room(size_t size) {
  return call([](uintptr_t n, uintptr_t) { return loft::allocate(n); }, size, 0);
}

void* allocate_aligned_in_room(size_t alignment, size_t size) {
  return call([](uintptr_t a, uintptr_t n) { return loft::allocate_aligned(a, n); }, alignment,
              size);
}

// Not waited for: the paper's free is not on the critical path (3.1.2).
void free_in_room(void* p) {
  if (p == nullptr) return;
  nextgen::Mailbox* box = nextgen::box_of_mine();
  if (LOFT_UNLIKELY(box == nullptr)) return loft::deallocate(p);
  nextgen::post(
      box,
      [](uintptr_t object, uintptr_t) -> void* {
        loft::deallocate(reinterpret_cast<void*>(object));
        return nullptr;
      },
      reinterpret_cast<uintptr_t>(p), 0);
}

void* invalid_argument() {
  errno = EINVAL;
  return nullptr;
}

void* allocate(size_t size, size_t alignment, loft::Maker) {
  return alignment == 0 ? allocate_in_room(size) : allocate_aligned_in_room(alignment, size);
}

void deallocate(void* p) { free_in_room(p); }

}  // namespace

#include "engine/operators.h"

extern "C" {

LOFT_EXPORT void* malloc(size_t size) noexcept { return allocate_in_room(size); }
LOFT_EXPORT void free(void* p) noexcept { free_in_room(p); }
LOFT_EXPORT void cfree(void* p) noexcept { free_in_room(p); }
LOFT_EXPORT void free_sized(void* p, size_t) noexcept { free_in_room(p); }
LOFT_EXPORT void free_aligned_sized(void* p, size_t, size_t) noexcept { free_in_room(p); }

LOFT_EXPORT void* calloc(size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return call([](uintptr_t n, uintptr_t) { return loft::allocate_zeroed(n); }, bytes, 0);
}

LOFT_EXPORT void* realloc(void* p, size_t size) noexcept {
  if (p == nullptr) return allocate_in_room(size);
  if (size == 0) {
    free_in_room(p);
    return nullptr;
  }
  return call([](uintptr_t object,
                 uintptr_t n) { return loft::reallocate(reinterpret_cast<void*>(object), n); },
              reinterpret_cast<uintptr_t>(p), size);
}

LOFT_EXPORT void* reallocarray(void* p, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return realloc(p, bytes);
}

LOFT_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!loft::is_power_of_two(alignment)) return invalid_argument();
  return allocate_aligned_in_room(alignment, size);
}

LOFT_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  if (alignment > SIZE_MAX / 2 + 1) return invalid_argument();
  return allocate_aligned_in_room(std::bit_ceil(alignment), size);
}

LOFT_EXPORT int posix_memalign(void** to, size_t alignment, size_t size) noexcept {
  if (!loft::is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const loft::KeepErrno keep;
  void* p = allocate_aligned_in_room(alignment, size);
  if (p == nullptr) return ENOMEM;
  *to = p;
  return 0;
}

LOFT_EXPORT void* valloc(size_t size) noexcept {
  return allocate_aligned_in_room(loft::os::page_size(), size);
}

LOFT_EXPORT void* pvalloc(size_t size) noexcept {
  const size_t page = loft::os::page_size();
  if (size > PTRDIFF_MAX) return loft::os::out_of_memory();
  return allocate_aligned_in_room(page, loft::round_up(size == 0 ? 1 : size, page));
}

LOFT_EXPORT size_t malloc_usable_size(void* p) noexcept { return loft::usable_size(p); }

}  // extern "C"
