#include "inspect/memory.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/keep.h"

namespace loft::inspect {

bool is_readable(uintptr_t at) {
  constexpr long kNoAction = 0x4c6f;
  constexpr size_t kSetBytes = 8;  // of the system's sets of signals
  const KeepErrno keep;
  return syscall(SYS_rt_sigprocmask, kNoAction, at, nullptr, kSetBytes) != 0 && errno == EINVAL;
}

}  // namespace loft::inspect
