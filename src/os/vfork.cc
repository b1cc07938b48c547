// vfork for owner=cpu (os/restartable.h), with glibc.
//
// The child shares its parent's memory, thread-local variables included, until it runs another
// program or ends. The parent's thread waits until then. The kernel drops the registration of a
// child that is cloned into the same memory, so it does not restart the child's sequences. The
// shared area still names the parent's last processor, and the child would pop and push there
// beside the threads that run on it. The child therefore first marks its processor as unknown. Then
// every sequence fails, and every call takes a processor's lock.
//
// Under any other owner the child goes on with the block of its parent's thread, which waits. So
// vfork is libc's, to which this jumps.
//
// Only libloft.so contains this file, because vfork is libc's own name. A child of a direct clone
// with CLONE_VM must not allocate: it does not run this code, and nothing that a fast path reads
// distinguishes it from its parent. A signal handler that allocates is also unsafe if it runs in
// the child before the child's first instruction here.
#include "os/restartable.h"

#if defined(LOFT_RESTARTABLE)

#include <errno.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "os/auxiliary.h"
#include "os/os.h"

namespace loft::os {

namespace {

constexpr unsigned kSmallestArea = 32;  // every kernel accepts this size; old ones no other

// False if the area is not registered with that many bytes.
bool register_anew(rseq* area, unsigned bytes) {
  return syscall(SYS_rseq, area, bytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0 &&
         syscall(SYS_rseq, area, bytes, 0, RSEQ_SIG) == 0;
}

// The C library does not report the size that it has registered. It is the smallest area, or as
// many bytes as the kernel can fill.
unsigned other_area_size() {
  constexpr unsigned long kFeatureSize = 27;  // AT_RSEQ_FEATURE_SIZE
  return static_cast<unsigned>(round_up(auxiliary(kFeatureSize), size_t{kSmallestArea}));
}

// Called when the parent continues. Linux (6.18, for one) writes the processor's number into the
// area whenever the thread has slept. A kernel that writes the number only after a change is made
// to write it by a new registration. Only a registered thread can do this: the child of a vfork
// that calls vfork itself cannot. Without it, sequences fail until the thread changes processors.
void find_processor_again() {
  auto* const area =
      reinterpret_cast<rseq*>(static_cast<char*>(__builtin_thread_pointer()) + restartable.area);
  // Volatile: the kernel writes it.
  if (static_cast<int>(*const_cast<volatile __u32*>(&area->cpu_id)) != RSEQ_CPU_ID_UNINITIALIZED) {
    return;
  }
  if (!register_anew(area, kSmallestArea)) register_anew(area, other_area_size());
}

}  // namespace

}  // namespace loft::os

// Runs in the parent, under owner=cpu. `result` is the return value of the system call.
extern "C" LOFT_HIDDEN pid_t loft_vfork_returns(long result) noexcept {
  if (result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  const loft::KeepErrno keep;
  loft::os::find_processor_again();
  return static_cast<pid_t>(result);
}

// The child overwrites the stack below its caller's frame, so a register holds the return address
// in the meantime. The child jumps to it and does not return: on a processor that checks returns,
// the parent's record of this call must stay.
asm(R"(
  .pushsection .text.vfork, "ax", @progbits
  .globl vfork
  .type vfork, @function
  .p2align 4
vfork:
  .cfi_startproc
  cmpq $0, 8+_ZN4loft2os11restartableE(%rip)
  je 1f
  popq %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  movl $58, %eax
  syscall
  testq %rax, %rax
  jnz 2f
  movq _ZN4loft2os11restartableE(%rip), %rcx
  movl $-1, %fs:4(%rcx)
  jmp *%rdi
2:
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rip, 0
  movq %rax, %rdi
  jmp loft_vfork_returns
1:
  jmp *__vfork@GOTPCREL(%rip)
  .cfi_endproc
  .size vfork, .-vfork
  .popsection
)");
static_assert(offsetof(loft::os::Restartable, area) == 0 &&
              offsetof(loft::os::Restartable, blocks) == 8 && offsetof(rseq, cpu_id) == 4 &&
              SYS_vfork == 58);

#endif
