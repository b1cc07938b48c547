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

#include "base/atomic.h"
#include "base/macros.h"
#include "os/os.h"
#include "os/symbols.h"

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

enum BindingState : uint32_t { kUnbound, kBinding, kBound };
constinit Atomic<uint32_t> binding_state{kUnbound};

template <class Function>
os::Symbol here(const char* name, Function* meaning) {
  return {name, reinterpret_cast<const void*>(meaning)};
}

// mallinfo is, which is no reason to leave it to libc.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// What the names mean to the rest of the program: loft's functions, or those of whoever stands
// before it.
void bind_libc() {
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
  os::rename_in_libc(symbols, sizeof symbols / sizeof symbols[0]);
}

#pragma GCC diagnostic pop

// Once. Who comes while another thread is at it waits, but not for ever: that thread may not be in
// this process, which was forked meanwhile.
void bind_libc_once() {
  uint32_t state = kUnbound;
  // Acquire pairs with the release below: what dlopen looks up then was written before.
  if (binding_state.compare_exchange_strong(state, kBinding, memory_order_acquire,
                                            memory_order_acquire)) {
    bind_libc();
    binding_state.store(kBound, memory_order_release);
    return;
  }
  constexpr int kMostTurns = 1000;
  for (int turn = 0; turn < kMostTurns && state == kBinding; ++turn) {
    os::yield();
    state = binding_state.load(memory_order_acquire);
  }
}

using Dlopen = void* (*)(const char*, int);
constinit Atomic<Dlopen> next_dlopen{nullptr};

}  // namespace

}  // namespace loft

// The C library looks for a library where the caller's own RUNPATH says, and knows the caller by
// the address it returns to: the last call has to be a jump.
extern "C" LOFT_EXPORT void* dlopen(const char* file, int mode) noexcept {
  using namespace loft;
  if (LOFT_UNLIKELY(binding_state.load(memory_order_acquire) != kBound)) bind_libc_once();
  // Relaxed: each thread finds the same function.
  Dlopen next = next_dlopen.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(next == nullptr)) {
    next = reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen"));
    if (next == nullptr) return nullptr;
    next_dlopen.store(next, memory_order_relaxed);
  }
  return next(file, mode);
}

#endif  // __GLIBC__
