// Which thread the caller is, on Linux.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/single_thread.h"
#include "os/os.h"
#include "os/posix_threads.h"

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

}  // namespace loft::os
