// The C library's allocation functions. Linked into a program or preloaded, they replace libc's
// own. Nothing is forwarded, so strdup, getline and the rest of libc allocate here as well.
// Contracts are those of malloc(3); include/loft/loft.h states them under the loft_ names.
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>

#include "api/info.h"
#include "api/process.h"  // for keep_process_hooks
#include "api/surface.h"
#include "base/macros.h"
#include "front/allocate.h"

extern "C" {

LOFT_EXPORT void* malloc(size_t size) noexcept { return loft::allocate(size); }

LOFT_EXPORT void free(void* object) noexcept { loft::deallocate(object); }

LOFT_EXPORT void* calloc(size_t count, size_t size) noexcept {
  return loft::allocate_array(count, size);
}

LOFT_EXPORT void* realloc(void* object, size_t size) noexcept { return loft::resize(object, size); }

LOFT_EXPORT void* reallocarray(void* object, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return loft::os::out_of_memory();
  return loft::replaceable(realloc)(object, bytes);
}

LOFT_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_strict(alignment, size);
}

LOFT_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_rounded(alignment, size);
}

LOFT_EXPORT int posix_memalign(void** object, size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_posix(object, alignment, size);
}

LOFT_EXPORT void* valloc(size_t size) noexcept { return loft::allocate_at_page(size); }

LOFT_EXPORT void* pvalloc(size_t size) noexcept {
  return loft::replaceable(valloc)(loft::in_whole_pages(size));
}

LOFT_EXPORT size_t malloc_usable_size(void* object) noexcept { return loft::usable_size(object); }

LOFT_EXPORT int malloc_trim(size_t pad) noexcept { return loft::trim(pad) != 0 ? 1 : 0; }

// Removed from libc's headers, but old binaries still call it.
LOFT_EXPORT void cfree(void* object) noexcept { loft::deallocate(object); }

#if defined(__GLIBC__)

// glibc's parameters tune parts that loft does not have. Programs that set them treat a refusal as
// an error. So the known ones are accepted, without effect.
LOFT_EXPORT int mallopt(int parameter, int) noexcept {
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

LOFT_EXPORT struct mallinfo mallinfo() noexcept { return loft::memory_info_int(); }

#if __GLIBC_PREREQ(2, 33)
LOFT_EXPORT struct mallinfo2 mallinfo2() noexcept { return loft::memory_info(); }
#endif

LOFT_EXPORT int malloc_info(int options, FILE* stream) noexcept {
  return loft::write_info_xml(options, stream);
}

LOFT_EXPORT void malloc_stats() noexcept { loft::print_stats(); }

// glibc exports the same functions under these names, for wrappers of malloc. Weak, because a
// static link may bring in glibc's own.
#if defined(__clang__)
#define LOFT_ALIAS(name) LOFT_EXPORT __attribute__((weak, alias(#name)))
#else
#define LOFT_ALIAS(name) LOFT_EXPORT __attribute__((weak, alias(#name), copy(name)))
#endif
LOFT_ALIAS(malloc) void* __libc_malloc(size_t) noexcept;
LOFT_ALIAS(free) void __libc_free(void*) noexcept;
LOFT_ALIAS(calloc) void* __libc_calloc(size_t, size_t) noexcept;
LOFT_ALIAS(realloc) void* __libc_realloc(void*, size_t) noexcept;
LOFT_ALIAS(memalign) void* __libc_memalign(size_t, size_t) noexcept;
LOFT_ALIAS(valloc) void* __libc_valloc(size_t) noexcept;
LOFT_ALIAS(pvalloc) void* __libc_pvalloc(size_t) noexcept;
#undef LOFT_ALIAS

#endif  // __GLIBC__

}  // extern "C"
