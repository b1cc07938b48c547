// What a fault was, as the processor has told it.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace loft::os {

// `context`: the third argument of a signal's handler. 1: a write; 0: a read; -1: not known.
inline int wrote(const void* context) {
#if defined(__x86_64__)
  // The error code of a page fault; bit 1: a write.
  const auto* const machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  return (machine->gregs[REG_ERR] & 2) != 0 ? 1 : 0;
#else
  static_cast<void>(context);
  return -1;
#endif
}

// Whether the fault at the address was of an instruction that was to be executed there.
inline bool is_call(const void* context, uintptr_t address) {
#if defined(__x86_64__)
  // Bit 4: the fetch of an instruction. Not all processors tell it.
  const auto* const machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  return (machine->gregs[REG_ERR] & 16) != 0 ||
         static_cast<uintptr_t>(machine->gregs[REG_RIP]) == address;
#elif defined(__aarch64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.pc == address;
#else
  static_cast<void>(context);
  static_cast<void>(address);
  return false;
#endif
}

}  // namespace loft::os
