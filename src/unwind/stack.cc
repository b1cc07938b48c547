#include "unwind/stack.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "base/macros.h"
#include "os/os.h"

namespace loft::unwind {

bool is_readable(uintptr_t at) {
  constexpr long kNoAction = 0x4c6f;
  constexpr size_t kSetBytes = 8;  // of the system's sets of signals
  const KeepErrno keep;
  return syscall(SYS_rt_sigprocmask, kNoAction, at, nullptr, kSetBytes) != 0 && errno == EINVAL;
}

bool can_tell_readable() {
  const size_t bytes = os::page_size();
  void* const page = os::reserve(bytes);
  if (page == nullptr) return false;
  const bool sees_none = !is_readable(reinterpret_cast<uintptr_t>(page));
  os::unmap(page, bytes);
  uint64_t word = 0;
  return sees_none && is_readable(reinterpret_cast<uintptr_t>(&word));
}

Stack::Stack(uintptr_t stack_pointer)
    : low_(round_down(stack_pointer, os::page_size())), high_(low_ + os::page_size()) {}

LOFT_COLD bool Stack::enter(uintptr_t at) {
  if (!is_readable(at)) return false;
  const uintptr_t page = round_down(at, os::page_size());
  if (page != high_) low_ = page;
  high_ = page + os::page_size();
  return true;
}

}  // namespace loft::unwind
