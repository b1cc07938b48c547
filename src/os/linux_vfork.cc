// vfork for a program whose processors own the caches (os/restartable.h), on Linux with glibc.
//
// The child has its parent's memory, thread-local variables included, until it runs another program
// or ends; the parent's thread waits so long. But the system does not restart the child's
// sequences: it drops the registration of whoever is cloned into the same memory. What the two
// share still names the parent's last processor, and the child would pop and push there beside
// everybody who runs on it. So the child says first that its processor is not known. Each sequence
// fails then, and each call takes a processor's lock.
//
// Part of libloft.so alone, as vfork is libc's own name. A direct clone with CLONE_VM does not come
// by here, and nothing that a fast path reads tells it from its parent: it must not allocate. Nor
// is a signal handler safe that runs in the child before its first instruction here, and allocates.
#include "os/restartable.h"

#if defined(LOFT_RESTARTABLE)

#include <errno.h>
#include <sys/auxv.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/macros.h"
#include "os/os.h"

namespace loft::os {

namespace {

constexpr unsigned kSmallestArea = 32;  // what every system registers, and old ones nothing else

// False if it is not registered with so many bytes.
bool register_anew(rseq* area, unsigned bytes) {
  return syscall(SYS_rseq, area, bytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0 &&
         syscall(SYS_rseq, area, bytes, 0, RSEQ_SIG) == 0;
}

// The C library does not say how many bytes it has registered: the smallest area, or what the
// system can fill.
unsigned other_area_size() {
  constexpr unsigned long kFeatureSize = 27;  // AT_RSEQ_FEATURE_SIZE
  return static_cast<unsigned>(round_up(getauxval(kFeatureSize), size_t{kSmallestArea}));
}

// The parent goes on. Linux writes its processor's number into the area whenever the thread has
// slept (6.18 does); a system that writes it only when it has changed is made to. Only who is
// registered, and so not the child of a vfork that calls vfork itself, does so. Where it cannot be
// done, sequences fail until the thread changes its processor.
void find_processor_again() {
  if (restartable.blocks == nullptr) return;
  auto* const area =
      reinterpret_cast<rseq*>(static_cast<char*>(__builtin_thread_pointer()) + restartable.area);
  // Volatile: the system writes it.
  if (static_cast<int>(*const_cast<volatile __u32*>(&area->cpu_id)) != RSEQ_CPU_ID_UNINITIALIZED) {
    return;
  }
  if (!register_anew(area, kSmallestArea)) register_anew(area, other_area_size());
}

}  // namespace

}  // namespace loft::os

// What the system has returned to the parent.
extern "C" LOFT_HIDDEN pid_t loft_vfork_returns(long result) noexcept {
  if (result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  const loft::os::KeepErrno keep;
  loft::os::find_processor_again();
  return static_cast<pid_t>(result);
}

// The child overwrites the stack below its caller's frame, so the address to return to is in a
// register meanwhile. The child jumps there: where the processor checks returns, the parent's
// record of this call has to stay.
asm(R"(
  .pushsection .text.vfork, "ax", @progbits
  .globl vfork
  .type vfork, @function
  .p2align 4
vfork:
  .cfi_startproc
  popq %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  movl $58, %eax
  syscall
  testq %rax, %rax
  jnz 2f
  cmpq $0, 8+_ZN4loft2os11restartableE(%rip)
  je 1f
  movq _ZN4loft2os11restartableE(%rip), %rcx
  movl $-1, %fs:4(%rcx)
1:
  jmp *%rdi
2:
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rip, 0
  movq %rax, %rdi
  jmp loft_vfork_returns
  .cfi_endproc
  .size vfork, .-vfork
  .popsection
)");
static_assert(offsetof(loft::os::Restartable, area) == 0 &&
              offsetof(loft::os::Restartable, blocks) == 8 && offsetof(rseq, cpu_id) == 4 &&
              SYS_vfork == 58);

#endif
