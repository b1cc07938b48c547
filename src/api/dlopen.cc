// Code that is loaded while the program runs is bound to loft, too, whatever way it is loaded.
//
// Who looks malloc or free up in the C library itself gets past a loft that was preloaded, and an
// object of the one then meets the free of the other: a plugin that dlopen binds with RTLD_DEEPBIND
// (all of PHP's are), a binding that takes a function from a library's handle (ctypes, JNA, .NET).
// Before the first of these can happen, the names in the C library are given loft's meaning.
//
// Part of libloft.so alone: dlopen is libc's own name, and whoever links loft into a program has
// not asked for another one.
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/macros.h"
#include "front/allocate.h"
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

// Loft's meaning was given, or cannot be.
constinit Atomic<bool> is_settled{false};

template <class Function>
os::Symbol here(const char* name, Function* meaning) {
  return {name, reinterpret_cast<const void*>(meaning)};
}

// The header calls mallinfo deprecated, which is no reason to leave it to libc.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// Only if loft's malloc is the program's: what libc allocates itself is loft's then. (Where it is
// not, the probe's one byte stays, as it is not known whose it is; and within reach, for those who
// look for what is lost.) The names are given loft's own
// functions, and not those of somebody who stands before it, who may be looking libc's up in order
// to pass calls on.
// False if there is no memory for the probe, this time.
bool bind_libc() {
  char* const probe = strdup("");
  if (probe == nullptr) return false;
  if (!pagemap.contains(probe)) {
    // Relaxed: nobody reads it.
    static constinit Atomic<char*> kept{nullptr};
    kept.store(probe, memory_order_relaxed);
    return true;
  }
  deallocate(probe);
  const os::Symbol symbols[] = {
      here("malloc", malloc),
      here("free", free),
      here("calloc", calloc),
      here("realloc", realloc),
      here("reallocarray", reallocarray),
      here("aligned_alloc", aligned_alloc),
      here("memalign", memalign),
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
      !is_settled.exchange(true, memory_order_relaxed)) {
    os::report(
        Text() << "dlopen: the system does not let libc's table of names be written "
                  "(mprotect), so code that is loaded with RTLD_DEEPBIND calls libc's malloc");
  }
  return true;
}

#pragma GCC diagnostic pop

// Acquire pairs with the release: what is looked up from here on was written before. A thread that
// comes while another one is at it does the same again.
void settle() {
  if (LOFT_UNLIKELY(!is_settled.load(memory_order_acquire)) && bind_libc()) {
    is_settled.store(true, memory_order_release);
  }
}

using Dlopen = void* (*)(const char*, int);
constinit Atomic<Dlopen> next_dlopen{nullptr};
using Dlmopen = void* (*)(Lmid_t, const char*, int);
constinit Atomic<Dlmopen> next_dlmopen{nullptr};

// The C library's function of the name. Relaxed: each thread finds the same one.
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

// The C library looks for a library where the caller's own RUNPATH says, and knows the caller by
// the address it returns to: the last call has to be a jump.
extern "C" LOFT_EXPORT void* dlopen(const char* file, int mode) noexcept {
  loft::settle();
  const loft::Dlopen next = loft::next_of("dlopen", loft::next_dlopen);
  return LOFT_LIKELY(next != nullptr) ? next(file, mode) : nullptr;
}

// A new namespace gets a C library of its own, which is not the program's, and stays as it is.
extern "C" LOFT_EXPORT void* dlmopen(Lmid_t space, const char* file, int mode) noexcept {
  if (space == LM_ID_BASE) loft::settle();
  const loft::Dlmopen next = loft::next_of("dlmopen", loft::next_dlmopen);
  return LOFT_LIKELY(next != nullptr) ? next(space, file, mode) : nullptr;
}

#endif  // __GLIBC__
