#include "inspect/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/keep.h"

namespace loft::inspect {

bool is_readable(uintptr_t at) {
  constexpr long kNoAction = 0x4c6f;
  constexpr size_t kSetBytes = 8;  // of the system's sets of signals
  const KeepErrno keep;
  return syscall(SYS_rt_sigprocmask, kNoAction, at, nullptr, kSetBytes) != 0 && errno == EINVAL;
}

bool copy_if_readable(void* to, uintptr_t from, size_t bytes) {
  constexpr uintptr_t kWord = 8;
  if (!is_readable(from & -kWord) || !is_readable((from + bytes - 1) & -kWord)) return false;
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return true;
}

size_t copy_if_there(void* to, uintptr_t from, size_t bytes) {
  const iovec here = {to, bytes};
  const iovec there = {reinterpret_cast<void*>(from), bytes};
  const long copied = syscall(SYS_process_vm_readv, long{getpid()}, &here, 1UL, &there, 1UL, 0UL);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

// By the system's calls: another library may have functions of libc's names, which allocate.
void* borrow(size_t bytes) {
  constexpr long kReadAndWrite = PROT_READ | PROT_WRITE;
  constexpr long kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
  const long at = syscall(SYS_mmap, nullptr, bytes, kReadAndWrite, kPrivate, -1L, 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}

void give_back(void* memory, size_t bytes) {
  if (memory != nullptr) syscall(SYS_munmap, memory, bytes);
}

}  // namespace loft::inspect
