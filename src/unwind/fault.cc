#include "unwind/fault.h"

#include <ucontext.h>

namespace loft::unwind {

int wrote(const void* context) {
#if defined(__x86_64__) && defined(__linux__)
  // The error code of a page fault; bit 1: a write.
  const auto* const machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  return (machine->gregs[REG_ERR] & 2) != 0 ? 1 : 0;
#else
  static_cast<void>(context);
  return -1;
#endif
}

}  // namespace loft::unwind
