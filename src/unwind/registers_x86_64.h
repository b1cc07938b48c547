// x86-64: the calling function's registers, and how the system's frame of a signal is recognised.
#pragma once

#if defined(__x86_64__)

#include <cstdint>

#include "base/macros.h"
#include "unwind/registers.h"

namespace loft::unwind {

inline constexpr bool kReadsFrameInformation = true;
inline constexpr intptr_t kFrameRecord = 0;  // from the frame pointer: the caller's, and the return

// All of one instruction of the function that this is expanded in, whose own frame information
// leads to its caller. That function gets a frame pointer, and so the second way leads there, too.
LOFT_ALWAYS_INLINE Registers registers_here() {
  Registers here;
  __asm__ volatile(
      "leaq 0f(%%rip), %0\n"
      "0:\n"
      "movq %%rsp, %1\n"
      "movq %%rbx, %2"
      : "=&r"(here.pc), "=&r"(here.stack), "=r"(here.rbx));
  here.frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here;
}

LOFT_ALWAYS_INLINE uintptr_t stripped(uintptr_t pc) { return pc; }

// What a signal handler returns to: it asks the system to restore the registers. Of libcs without
// frame information, such as musl.
inline bool is_restorer(uintptr_t pc) {
  constexpr uint8_t kCode[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};  // mov $15; syscall
  return __builtin_memcmp(reinterpret_cast<const void*>(pc), kCode, sizeof kCode) == 0;
}
inline constexpr uintptr_t kRestorerBytes = 9;

// Whether code, of which these are the first bytes, does nothing but return; and how far above the
// stack pointer it has the address.
inline bool returns_from(uint64_t code, uintptr_t* bytes) {
  constexpr uint64_t kCode = 0xc300c48348, kMask = 0xff80ffffff;  // add $bytes, %rsp; ret
  *bytes = code >> 24 & 0x7f;
  return (code & kMask) == kCode;
}
inline constexpr uintptr_t kReturnBytes = 5;

}  // namespace loft::unwind

#endif
