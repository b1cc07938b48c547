// What malloc and free must leave as they found it.
#pragma once

#include <errno.h>

#include "base/macros.h"

namespace loft {

// Restores the caller's errno at the end of a scope.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

// For floating-point arithmetic inside malloc: the program may have changed how it rounds and what
// it traps, and may look at its flags.
class [[maybe_unused]] KeepFloat {
 public:
#if defined(__x86_64__)
  KeepFloat() {
    const unsigned usual = 0x1F80;  // rounds to nearest, traps nothing
    __asm__ volatile("stmxcsr %0" : "=m"(saved_));
    __asm__ volatile("ldmxcsr %0" : : "m"(usual));
  }
  ~KeepFloat() { __asm__ volatile("ldmxcsr %0" : : "m"(saved_)); }
#else
  KeepFloat() = default;
  ~KeepFloat() = default;
#endif
  KeepFloat(const KeepFloat&) = delete;
  KeepFloat& operator=(const KeepFloat&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#endif
};

}  // namespace loft
