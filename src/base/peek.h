// Looking at what another thread writes with plain stores, for statistics and hints: some value
// that was there lately, and nothing about what was written beside it. The caller must bear any
// value.
#pragma once

#include "base/macros.h"

namespace loft {

#if defined(LOFT_THREAD_SANITIZER)
// What is meant to race must not be reported; the sanitizer watches every atomic load.
template <class T>
__attribute__((no_sanitize("thread"))) LOFT_NOINLINE T peek(const T& word) {
  return *static_cast<const volatile T*>(&word);
}
#else
// Relaxed: it pairs with nothing, and is only to be one load.
template <class T>
T peek(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
#endif

}  // namespace loft
