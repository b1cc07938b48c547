// A bound that grows while other threads compare with it. x86-64 can compare with memory in one
// instruction, but compilers do not generate it for an atomic load.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace loft {

class Bound {
 public:
  constexpr explicit Bound(uint64_t value = 0) : value_(value) {}

  uint64_t get() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }

  // Acquire pairs with the release in set: for who asks about everything below the bound, and not
  // about something that another thread handed over.
  uint64_t get_acquire() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }

  // Release: everything below the bound is in place before any thread sees the bound.
  void set(uint64_t value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }

  // Whether `x` is below the bound. The load is relaxed: a thread that asks about something below
  // the bound got it from another thread, and the order of that transfer covers the bound, too.
  LOFT_ALWAYS_INLINE bool contains(uint64_t x) const {
#if defined(__x86_64__) && !defined(LOFT_THREAD_SANITIZER)
    bool below;
    __asm__("cmp %[bound], %[x]" : "=@ccb"(below) : [x] "r"(x), [bound] "m"(value_));
    return below;
#else
    return x < get();
#endif
  }

 private:
  uint64_t value_;
};

// Whether `p` is not below a bound that another thread may lower. The load is relaxed, in one
// instruction as above.
LOFT_ALWAYS_INLINE bool reaches(void** p, void** const& bound) {
#if defined(__x86_64__) && !defined(LOFT_THREAD_SANITIZER)
  bool result;
  __asm__("cmp %[bound], %[p]" : "=@ccae"(result) : [p] "r"(p), [bound] "m"(bound));
  return result;
#else
  return p >= __atomic_load_n(&bound, __ATOMIC_RELAXED);
#endif
}

// An entry of a table that another thread may be changing, as one load. x86-64 can load and extend
// in one instruction, but compilers make two of an atomic load.
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
