// older_kernel ANSWER PROGRAM [ARGUMENT]...: runs a program as if the kernel lacked what loft makes
// use of and Linux 4.18 has not got (docs/internals/compatibility.md, "What older kernels lack").
//
// ANSWER is 4.18: each call is answered as that kernel does, which has rseq. Or it is ENOSYS or
// EPERM: each such call that loft makes, rseq and membarrier fail with that error. EPERM is what
// container runtimes say that are older than the call. What libc alone calls fails with ENOSYS: it
// takes EPERM for an answer, and starts no thread, for one.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr uint32_t kFirstNewer = 424;  // of 5.1; from there on, all machines have the same numbers
constexpr uint32_t kCloseRange = 436;
constexpr uint32_t kLastAdvice = 19;         // MADV_KEEPONFORK, of 4.14
constexpr uint32_t kMoveFlags = 3;           // MREMAP_MAYMOVE, MREMAP_FIXED
constexpr uint32_t kFileFlags = 7;           // MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_HUGETLB
constexpr uint32_t kLastFence = 1 << 6;      // MEMBARRIER_CMD_REGISTER_..._SYNC_CORE, of 4.16
constexpr uint32_t kScanPages = 0xC0606610;  // PAGEMAP_SCAN

sock_filter steps[64];
unsigned short count;

void step(unsigned code, uint32_t value, uint8_t yes = 0, uint8_t no = 0) {
  steps[count++] = {static_cast<uint16_t>(code), yes, no, value};
}

void answer(int error) { step(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)); }

void load(size_t offset) { step(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }

void load_number() { load(offsetof(seccomp_data, nr)); }

void refuse(uint32_t call, int error) {
  step(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
  answer(error);
}

// The call fails if an argument of it compares so. What is compared lies in the argument's lower
// half, which comes first on these machines.
void refuse_if(uint32_t call, size_t argument, unsigned compare, uint32_t value, int error) {
  step(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
  load(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
  step(BPF_JMP | compare | BPF_K, value, 0, 1);
  answer(error);
  load_number();
}

// `error`: the answer to all of it; 0: what Linux 4.18 answers.
void refuse_what_is_newer(int error) {
  load_number();
  refuse(kCloseRange, error != 0 ? error : ENOSYS);
  step(BPF_JMP | BPF_JGE | BPF_K, kFirstNewer, 0, 1);
  answer(ENOSYS);
  if (error != 0) {
    refuse(SYS_rseq, error);
    refuse(SYS_membarrier, error);
  }
  const int unknown = error != 0 ? error : EINVAL;
  refuse_if(SYS_madvise, 2, BPF_JGT, kLastAdvice, unknown);
  refuse_if(SYS_mremap, 3, BPF_JSET, ~kMoveFlags, unknown);
  refuse_if(SYS_memfd_create, 1, BPF_JSET, ~kFileFlags, unknown);
  refuse_if(SYS_membarrier, 0, BPF_JGT, kLastFence, unknown);
  refuse_if(SYS_membarrier, 1, BPF_JGT, 0, unknown);
  refuse_if(SYS_ioctl, 1, BPF_JEQ, kScanPages, error != 0 ? error : ENOTTY);
  step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

// -1: there is no such answer.
int error_of(const char* name) {
  if (strcmp(name, "4.18") == 0) return 0;
  if (strcmp(name, "ENOSYS") == 0) return ENOSYS;
  return strcmp(name, "EPERM") == 0 ? EPERM : -1;
}

}  // namespace

int main(int argc, char** argv) {
  const int error = argc < 3 ? -1 : error_of(argv[1]);
  if (error < 0) {
    fputs("usage: older_kernel 4.18|ENOSYS|EPERM PROGRAM [ARGUMENT]...\n", stderr);
    return 2;
  }
  refuse_what_is_newer(error);
  const sock_fprog filter = {count, steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) {
    perror("older_kernel: the filter");
    return 125;
  }
  execvp(argv[2], argv + 2);
  perror(argv[2]);
  return 126;
}
