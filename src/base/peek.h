// Reads a word that another thread writes with plain stores, for statistics and hints. The result
// is some recent value. It says nothing about other words. The caller must tolerate any value.
#pragma once

#include "base/macros.h"

namespace loft {

#if defined(LOFT_THREAD_SANITIZER)
// This race is intended and must not be reported. The sanitizer would check an atomic load.
template <class T>
__attribute__((no_sanitize("thread"))) LOFT_NOINLINE T peek(const T& word) {
  return *static_cast<const volatile T*>(&word);
}
#else
// Relaxed: it pairs with nothing. The atomic ensures only that this is a single load.
template <class T>
T peek(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
#endif

}  // namespace loft
