// Functions of the C library's and C++'s names, of which a program may have some itself. A call of
// such a name goes to the first function that the linker or the loader finds (cmake/loft.dynamic
// has those that libloft.so calls so), and its address is that one's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "os/symbols.h"

// loft's own, whoever has the names. The first three are null in a program that libloft.a is linked
// into and that has them itself.
extern "C" {
[[gnu::weak]] LOFT_HIDDEN void* loft_own_malloc(size_t size) noexcept;
[[gnu::weak]] LOFT_HIDDEN void loft_own_free(void* object) noexcept;
[[gnu::weak]] LOFT_HIDDEN void* loft_own_realloc(void* object, size_t size) noexcept;
LOFT_HIDDEN void* loft_own_aligned_alloc(size_t alignment, size_t size) noexcept;
LOFT_HIDDEN void* loft_own_memalign(size_t alignment, size_t size) noexcept;
}

// A declaration after it is that of another name for the function.
#if defined(__clang__)
#define LOFT_ANOTHER_NAME_OF(name, kind) kind __attribute__((alias(#name)))
#else
#define LOFT_ANOTHER_NAME_OF(name, kind) kind __attribute__((alias(#name), copy(name)))
#endif

namespace loft {

// For a call by the name, of a function in the same file. Without it, the compiler may take the one
// that it sees, which also bypasses valgrind: that replaces some functions, and one of the two
// allocators has to have all objects. (Objects of loft_malloc and its kin stay loft's own;
// valgrind's free accepts none of them.)
template <class Function>
LOFT_ALWAYS_INLINE Function* by_name(Function* function) {
  LOFT_FORGET(function);
  return function;
}

// Whether the process has another function of that name than loft's own. The type is without
// noexcept, which musl does not declare.
template <class Function>
bool is_anothers(const char* name, Function* function, Function* own) {
  return by_name(function) != own && os::has_another(name);
}

// The answer to a question that always has the same one, and is asked once.
template <bool (*kAsk)()>
LOFT_ALWAYS_INLINE bool once() {
  enum : uint32_t { kNotAsked, kYes, kNo };
  // Relaxed: whatever the answer is about, another thread's question leads to it, too.
  static constinit Atomic<uint32_t> known{kNotAsked};
  const uint32_t answer = known.load(memory_order_relaxed);
  if (LOFT_LIKELY(answer == kYes)) return true;
  if (answer == kNo) return false;
  const bool yes = kAsk();
  known.store(yes ? kYes : kNo, memory_order_relaxed);
  return yes;
}

}  // namespace loft
