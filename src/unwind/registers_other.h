// Architectures other than x86-64, which are followed by frame pointers. aarch64's compilers keep
// them unless they are told not to, and the system links its frame of a signal to them.
#pragma once

#if !defined(__x86_64__)

#include <cstdint>

#include "base/macros.h"
#include "unwind/registers.h"

namespace loft::unwind {

inline constexpr bool kReadsFrameInformation = false;
// From the frame pointer to where the caller's and the return address are.
#if defined(__riscv)
inline constexpr intptr_t kFrameRecord = -2 * intptr_t{sizeof(uintptr_t)};
#else
inline constexpr intptr_t kFrameRecord = 0;
#endif

LOFT_ALWAYS_INLINE Registers registers_here() {
  Registers here;
  here.frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  here.stack = here.frame;
  return here;
}

// Without the signature that a return address has on the stack where functions sign them.
LOFT_ALWAYS_INLINE uintptr_t stripped(uintptr_t pc) {
#if defined(__aarch64__)
  // xpaclri: nothing on processors that do not know it.
  register uintptr_t link __asm__("x30") = pc;
  __asm__("hint #7" : "+r"(link));
  return link;
#else
  return pc;
#endif
}

inline bool is_restorer(uintptr_t) { return false; }
inline constexpr uintptr_t kRestorerBytes = 0;

inline bool returns_from(uint64_t, uintptr_t*) { return false; }
inline constexpr uintptr_t kReturnBytes = 0;

}  // namespace loft::unwind

#endif
