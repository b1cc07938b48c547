#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/keep_errno.h"
#include "unwind/stack.h"

namespace loft::unwind {

// Not libc's function, which reads the set itself.
bool is_readable(uintptr_t at) {
  constexpr int kNoAction = 0x4c6f;
  const KeepErrno keep;
  return syscall(SYS_sigprocmask, kNoAction, at, nullptr) != 0 && errno == EINVAL;
}

}  // namespace loft::unwind
