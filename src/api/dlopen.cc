// Binds code that is loaded at run time to loft, whatever way it is loaded.
//
// Code that looks malloc or free up in the C library itself bypasses a preloaded loft. An object of
// one allocator then reaches the free of the other. Such code is (a) a plugin that dlopen binds
// with RTLD_DEEPBIND (all of PHP's are); (b) a binding that takes a function from a library's
// handle (ctypes, JNA, .NET). Before either can happen, loft redirects the names in the C library
// to itself.
//
// Part of libloft.so only: dlopen is libc's own name, and a program that links loft has not asked
// for another one.
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "api/own_names.h"
#include "base/atomic.h"
#include "base/macros.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/symbols.h"
#include "space/pagemap.h"

#if defined(__GLIBC__)

extern "C" {
void cfree(void*) noexcept;
void* __libc_malloc(size_t) noexcept;
void __libc_free(void*) noexcept;
void* __libc_calloc(size_t, size_t) noexcept;
void* __libc_realloc(void*, size_t) noexcept;
void* __libc_memalign(size_t, size_t) noexcept;
void* __libc_valloc(size_t) noexcept;
void* __libc_pvalloc(size_t) noexcept;
}

namespace loft {

namespace {

// The names are redirected, or cannot be.
constinit Atomic<uint32_t> is_bound{0};

template <class Function>
os::Symbol here(const char* name, Function* meaning) {
  return {name, reinterpret_cast<const void*>(meaning)};
}

// The header marks mallinfo as deprecated. It has to be redirected nevertheless.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// Redirects only if loft's malloc is the program's: then libc's own allocations are loft's.
// Otherwise the probe of one byte is not freed, because its allocator is unknown, and stays
// reachable for leak checkers. The names get loft's own functions, not those of an interposer in
// front of loft, which may look libc's up in order to forward calls.
// False if there is no memory for the probe this time.
bool bind_libc() {
  char* const probe = strdup("");
  if (probe == nullptr) return false;
  if (!pagemap.contains(probe)) {
    // Relaxed: no thread reads it.
    static constinit Atomic<char*> kept{nullptr};
    kept.store(probe, memory_order_relaxed);
    return true;
  }
  by_name(free)(probe);  // whose malloc may have called loft's, and put a header before
  const os::Symbol symbols[] = {
      here("malloc", loft_own_malloc),
      here("free", loft_own_free),
      here("calloc", calloc),
      here("realloc", loft_own_realloc),
      here("reallocarray", reallocarray),
      here("aligned_alloc", loft_own_aligned_alloc),
      here("memalign", loft_own_memalign),
      here("posix_memalign", posix_memalign),
      here("valloc", valloc),
      here("pvalloc", pvalloc),
      here("malloc_usable_size", malloc_usable_size),
      here("malloc_trim", malloc_trim),
      here("mallopt", mallopt),
      here("mallinfo", mallinfo),
#if __GLIBC_PREREQ(2, 33)
      here("mallinfo2", mallinfo2),
#endif
      here("malloc_info", malloc_info),
      here("malloc_stats", malloc_stats),
      here("cfree", cfree),
      here("__libc_malloc", __libc_malloc),
      here("__libc_free", __libc_free),
      here("__libc_calloc", __libc_calloc),
      here("__libc_realloc", __libc_realloc),
      here("__libc_memalign", __libc_memalign),
      here("__libc_valloc", __libc_valloc),
      here("__libc_pvalloc", __libc_pvalloc),
  };
  if (!os::rename_in_libc(symbols, sizeof symbols / sizeof symbols[0]) &&
      is_bound.exchange(1, memory_order_relaxed) == 0) {
    os::report(
        Text() << "dlopen: the system does not let libc's table of names be written "
                  "(mprotect), so code that is loaded with RTLD_DEEPBIND calls libc's malloc");
  }
  return true;
}

#pragma GCC diagnostic pop

// Acquire pairs with the release below: lookups that follow see the redirected names. A thread that
// arrives while another one redirects does the same again, which changes nothing.
void bind_once() {
  if (LOFT_UNLIKELY(is_bound.load(memory_order_acquire) == 0) && bind_libc()) {
    is_bound.store(1, memory_order_release);
  }
}

using Dlopen = void* (*)(const char*, int);
constinit Atomic<Dlopen> next_dlopen{nullptr};
using Dlmopen = void* (*)(Lmid_t, const char*, int);
constinit Atomic<Dlmopen> next_dlmopen{nullptr};

// The C library's function of this name. Relaxed: each thread finds the same one.
template <class Function>
Function next_of(const char* name, Atomic<Function>& known) {
  Function next = known.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(next == nullptr)) {
    next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    known.store(next, memory_order_relaxed);
  }
  return next;
}

}  // namespace

}  // namespace loft

// The C library searches the RUNPATH of the caller, and identifies the caller by the return
// address. So the last call has to be a jump.
extern "C" LOFT_EXPORT void* dlopen(const char* file, int mode) noexcept {
  loft::bind_once();
  const loft::Dlopen next = loft::next_of("dlopen", loft::next_dlopen);
  return LOFT_LIKELY(next != nullptr) ? next(file, mode) : nullptr;
}

// A new namespace gets its own C library, which is not the program's and stays as it is.
extern "C" LOFT_EXPORT void* dlmopen(Lmid_t space, const char* file, int mode) noexcept {
  if (space == LM_ID_BASE) loft::bind_once();
  const loft::Dlmopen next = loft::next_of("dlmopen", loft::next_dlmopen);
  return LOFT_LIKELY(next != nullptr) ? next(space, file, mode) : nullptr;
}

#endif  // __GLIBC__
