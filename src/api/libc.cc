// The C library's other functions that allocate, free, or tell of that. Those that derive from
// malloc, free, realloc or memalign call them by their names, so that they work with a program's
// own. Weak: in a program that libloft.a is linked into, functions of the program's own take their
// place, as they do of glibc's.
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/info.h"
#include "api/own_names.h"
#include "api/surface.h"
#include "base/macros.h"
#include "malloc/allocate.h"
#include "os/os.h"

#define LOFT_WEAK LOFT_REPLACEABLE

extern "C" {

LOFT_WEAK void* reallocarray(void* object, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return loft::by_name(realloc)(object, bytes);
}

LOFT_WEAK void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_strict(alignment, size);
}

LOFT_WEAK void* memalign(size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_rounded(alignment, size);
}

LOFT_WEAK int posix_memalign(void** object, size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_posix(object, alignment, size);
}

LOFT_WEAK void* valloc(size_t size) noexcept {
  return loft::by_name(memalign)(loft::os::page_size(), size);
}

LOFT_WEAK void* pvalloc(size_t size) noexcept {
  return loft::by_name(memalign)(loft::os::page_size(), loft::in_whole_pages(size));
}

LOFT_WEAK size_t malloc_usable_size(void* object) noexcept { return loft::usable_size(object); }

LOFT_WEAK int malloc_trim(size_t pad) noexcept { return loft::trim(pad) != 0 ? 1 : 0; }

// Removed from libc's headers, but old binaries still call it.
LOFT_WEAK void cfree(void* object) noexcept { loft::by_name(free)(object); }

LOFT_ANOTHER_NAME_OF(aligned_alloc, LOFT_HIDDEN)
void* loft_own_aligned_alloc(size_t, size_t) noexcept;
LOFT_ANOTHER_NAME_OF(memalign, LOFT_HIDDEN) void* loft_own_memalign(size_t, size_t) noexcept;

#if defined(__GLIBC__)

// glibc's parameters tune parts that loft does not have. Programs that set them treat a refusal as
// an error. So the known ones are accepted, without effect.
LOFT_WEAK int mallopt(int parameter, int) noexcept {
  switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return 1;
    default:
      return 0;
  }
}

LOFT_WEAK struct mallinfo mallinfo() noexcept { return loft::memory_info_int(); }

#if __GLIBC_PREREQ(2, 33)
LOFT_WEAK struct mallinfo2 mallinfo2() noexcept { return loft::memory_info(); }
#endif

LOFT_WEAK int malloc_info(int options, FILE* stream) noexcept {
  return loft::write_info_xml(options, stream);
}

LOFT_WEAK void malloc_stats() noexcept { loft::print_stats(); }

LOFT_ANOTHER_NAME_OF(memalign, LOFT_WEAK) void* __libc_memalign(size_t, size_t) noexcept;
LOFT_ANOTHER_NAME_OF(valloc, LOFT_WEAK) void* __libc_valloc(size_t) noexcept;
LOFT_ANOTHER_NAME_OF(pvalloc, LOFT_WEAK) void* __libc_pvalloc(size_t) noexcept;

#endif  // __GLIBC__

#undef LOFT_WEAK

}  // extern "C"
