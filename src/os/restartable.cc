// glibc registers the threads; membarrier provides the fences.
#include <sys/syscall.h>
#include <unistd.h>

#include "base/keep.h"
#include "os/os.h"
#include "os/restartable.h"

#if defined(LOFT_RESTARTABLE)
#include <sys/rseq.h>
// An older C library has neither symbol. A library that does not register its threads
// (GLIBC_TUNABLES=glibc.pthread.rseq=0, an old kernel, valgrind) sets the size to zero.
#pragma weak __rseq_offset
#pragma weak __rseq_size
#endif

namespace loft::os {

constinit Restartable restartable;

namespace {

constexpr int kOfOneProcessor = 1, kFence = 1 << 7, kAskForFences = 1 << 8;  // of membarrier

bool ask_for_fences() {
  const KeepErrno keep;
  return syscall(SYS_membarrier, kAskForFences, 0, 0) == 0;
}

}  // namespace

Sequences find_restartable() {
#if defined(LOFT_RESTARTABLE)
  static_assert(offsetof(struct rseq, cpu_id) == 4 && offsetof(struct rseq, rseq_cs) == 8 &&
                RSEQ_SIG == 0x53053053);
  // Volatile: the compiler assumes that a symbol declared in a header exists.
  const ptrdiff_t* const volatile offset = &__rseq_offset;
  if (offset == nullptr) return Sequences::kCrash;
  restartable.area = *offset;
  return __rseq_size != 0 && ask_for_fences() ? Sequences::kWork : Sequences::kFail;
#else
  return Sequences::kFail;
#endif
}

void keep_fences() { ask_for_fences(); }

bool fence_processor(unsigned number) {
  const KeepErrno keep;
  return syscall(SYS_membarrier, kFence, kOfOneProcessor, number) == 0;
}

}  // namespace loft::os
