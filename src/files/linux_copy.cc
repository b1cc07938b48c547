#include <sys/uio.h>
#include <unistd.h>

#include "base/keep_errno.h"
#include "files/output.h"
#include "os/linux_calls.h"

namespace loft::files {

size_t copy_if_there(void* to, uintptr_t from, size_t bytes) {
  const KeepErrno keep;
  const iovec here = {to, bytes};
  const iovec there = {reinterpret_cast<void*>(from), bytes};
  const ssize_t copied = os::call_process_vm_readv(getpid(), &here, &there);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

}  // namespace loft::files
