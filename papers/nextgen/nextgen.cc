// NextGen-Malloc (HotOS '23), Pseudo Code 1, as it is printed: a dedicated thread executes every
// malloc and free (mailbox.h).
//
// A library of its own, libloft-nextgen.so: loft's floors serve as the paper's normal_malloc, which
// nobody but the dedicated thread calls, and whose metadata lies apart from the objects.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <new>

#include "api/new_failure.h"
#include "api/surface.h"
#include "base/bits.h"
#include "base/keep_errno.h"
#include "base/macros.h"
#include "front/allocate.h"
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

void* allocate_again(size_t size, size_t alignment, loft::Maker) {
  return alignment == 0 ? allocate_in_room(size) : allocate_aligned_in_room(alignment, size);
}

// `maker`: the form of new. `alignment`: 0 for none.
void* make(loft::Maker maker, size_t size, size_t alignment = 0) {
  void* p = allocate_again(size, alignment, maker);
  return LOFT_LIKELY(p != nullptr) ? p : loft::retry_with(size, alignment, maker, allocate_again);
}
void* make_nothrow(loft::Maker maker, size_t size, size_t alignment = 0) {
  void* p = allocate_again(size, alignment, maker);
  if (LOFT_LIKELY(p != nullptr)) return p;
  return loft::retry_nothrow_with(size, alignment, maker, allocate_again);
}

}  // namespace

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

using loft::Maker;
using std::align_val_t;
using std::nothrow_t;

LOFT_EXPORT void* operator new(size_t n) { return make(Maker::kNew, n); }
LOFT_EXPORT void* operator new[](size_t n) { return make(Maker::kNewArray, n); }
LOFT_EXPORT void* operator new(size_t n, align_val_t a) {
  return make(Maker::kNewAligned, n, static_cast<size_t>(a));
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a) {
  return make(Maker::kNewArrayAligned, n, static_cast<size_t>(a));
}
LOFT_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept {
  return make_nothrow(Maker::kNew, n);
}
LOFT_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept {
  return make_nothrow(Maker::kNewArray, n);
}
LOFT_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make_nothrow(Maker::kNewAligned, n, static_cast<size_t>(a));
}
LOFT_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make_nothrow(Maker::kNewArrayAligned, n, static_cast<size_t>(a));
}

#define NEXTGEN_DELETE(...)                                                           \
  LOFT_EXPORT void operator delete(void* p __VA_ARGS__) noexcept { free_in_room(p); } \
  LOFT_EXPORT void operator delete[](void* p __VA_ARGS__) noexcept { free_in_room(p); }

NEXTGEN_DELETE()
NEXTGEN_DELETE(, size_t)
NEXTGEN_DELETE(, align_val_t)
NEXTGEN_DELETE(, size_t, align_val_t)
NEXTGEN_DELETE(, const nothrow_t&)
NEXTGEN_DELETE(, align_val_t, const nothrow_t&)
#undef NEXTGEN_DELETE
