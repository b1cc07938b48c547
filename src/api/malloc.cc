// The C library's allocation functions from which its others derive. Linked into a program or
// preloaded, they replace libc's own. Nothing is forwarded, so strdup, getline and the rest of libc
// allocate here as well. Contracts are those of malloc(3); include/loft/loft.h states them under
// the loft_ names. The others are in libc.cc, another member of libloft.a: a program that has
// these four itself takes none of them, and its own work with those that derive from them.
#include <stddef.h>
#include <stdlib.h>

#include "api/own_names.h"
#include "api/process.h"  // for keep_process_hooks
#include "api/surface.h"
#include "base/macros.h"
#include "malloc/allocate.h"

extern "C" {

LOFT_EXPORT void* malloc(size_t size) noexcept { return loft::allocate(size); }

LOFT_EXPORT void free(void* object) noexcept { loft::deallocate(object); }

LOFT_EXPORT void* calloc(size_t count, size_t size) noexcept {
  return loft::allocate_array(count, size);
}

LOFT_EXPORT void* realloc(void* object, size_t size) noexcept { return loft::resize(object, size); }

LOFT_ANOTHER_NAME_OF(malloc, LOFT_HIDDEN) void* loft_own_malloc(size_t) noexcept;
LOFT_ANOTHER_NAME_OF(free, LOFT_HIDDEN) void loft_own_free(void*) noexcept;
LOFT_ANOTHER_NAME_OF(realloc, LOFT_HIDDEN) void* loft_own_realloc(void*, size_t) noexcept;

#if defined(__GLIBC__)

// glibc exports the same functions under these names, for wrappers of malloc. Weak, because a
// static link may bring in glibc's own.
#define LOFT_OF_GLIBC LOFT_REPLACEABLE
LOFT_ANOTHER_NAME_OF(malloc, LOFT_OF_GLIBC) void* __libc_malloc(size_t) noexcept;
LOFT_ANOTHER_NAME_OF(free, LOFT_OF_GLIBC) void __libc_free(void*) noexcept;
LOFT_ANOTHER_NAME_OF(calloc, LOFT_OF_GLIBC) void* __libc_calloc(size_t, size_t) noexcept;
LOFT_ANOTHER_NAME_OF(realloc, LOFT_OF_GLIBC) void* __libc_realloc(void*, size_t) noexcept;
#undef LOFT_OF_GLIBC

#endif  // __GLIBC__

}  // extern "C"

// Who links these four has the others, too, and nothing of libc's malloc.
[[gnu::used]] static void* (*const keep_libc_names)(size_t, size_t) noexcept = loft_own_memalign;
