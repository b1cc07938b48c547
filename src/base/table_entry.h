// An entry of a table that another thread may be changing, as one load. x86-64 can load and extend
// in one instruction, but compilers make two of an atomic load.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

namespace loft {

LOFT_ALWAYS_INLINE size_t load_entry(const uint16_t& entry) {
#if defined(__x86_64__) && !defined(LOFT_THREAD_SANITIZER)
  size_t value;
  __asm__("movzwl %[entry], %k[value]" : [value] "=r"(value) : [entry] "m"(entry));
  return value;
#else
  return __atomic_load_n(&entry, __ATOMIC_RELAXED);
#endif
}

// Relaxed: each entry stands alone.
inline void store_entry(uint16_t& entry, size_t value) {
  __atomic_store_n(&entry, static_cast<uint16_t>(value), __ATOMIC_RELAXED);
}

}  // namespace loft
