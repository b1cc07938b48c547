// For floating-point arithmetic inside malloc: the program may have changed how it rounds and what
// it traps, and may look at its flags.
#pragma once

#include "base/macros.h"

namespace loft {

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
