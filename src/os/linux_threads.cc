// Threads on Linux: which one the caller is, and what one of loft's own begins with.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/single_thread.h"
#include "os/os.h"
#include "os/posix_threads.h"
#include "os/symbols.h"

namespace loft::os {

// The kernel lets only the owner unlock a word that holds the owner's number. Of all calls that
// identify the caller, this one is allowed wherever there are threads.
bool is_thread_of_libc() {
  const uint32_t word = static_cast<uint32_t>(thread_number());
  return syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE, 0, nullptr, nullptr, 0) == 0;
}

bool is_first_thread() { return known_single_thread() || thread_number() == getpid(); }

int thread_number() {
  clockid_t clock;
  // The clock's identifier contains the number. libc provides it without a system call.
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

// Not by dlopen or dlsym: libloft.so is initialised before all others, and these would initialise
// the others at once, before the C library.
CreateThread creator_of_threads() {
  if (kSanitized || !is_own_library()) return pthread_create;
  Wanted wanted{"pthread_create", 0};
  find_in_libc(&wanted, 1);
  return wanted.found == 0 ? pthread_create : reinterpret_cast<CreateThread>(wanted.found);
}

// Where the system refuses, the thread goes on as it is.
void settle_in(const char* name) {
  prctl(PR_SET_NAME, name);
  // It has nothing of the thread that starts it: not the scheduling of one that may never be late.
  const sched_param lowest = {};
  syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &lowest);
  size_t processors[128];
  const long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof(processors), processors);
  if (bytes > 0) syscall(SYS_sched_setaffinity, 0, bytes, processors);
}

}  // namespace loft::os
