#include <errno.h>
#include <signal.h>

#include "base/keep_errno.h"
#include "unwind/stack.h"

namespace loft::unwind {

// libc's function hands the set on as it is.
bool is_readable(uintptr_t at) {
  constexpr int kNoAction = 0x4c6f;
  const KeepErrno keep;
  return sigprocmask(kNoAction, reinterpret_cast<const sigset_t*>(at), nullptr) != 0 &&
         errno == EINVAL;
}

}  // namespace loft::unwind
