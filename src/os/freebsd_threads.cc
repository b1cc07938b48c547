// Which thread the caller is, on FreeBSD.
#include <pthread.h>
#include <pthread_np.h>
#include <sys/thr.h>
#include <sys/time.h>
#include <time.h>

#include "base/keep_errno.h"
#include "os/os.h"
#include "os/posix_threads.h"

namespace loft::os {

int thread_number() { return pthread_getthreadid_np(); }

bool is_thread_of_libc() {
  const KeepErrno keep;
  long number = 0;
  return thr_self(&number) == 0 && number == thread_number();
}

bool is_first_thread() { return pthread_main_np() == 1; }

uint64_t thread_time_ns(int number) {
  const KeepErrno keep;
  clockid_t clock;
  struct timespec time;
  if (clock_getcpuclockid2(number, CPUCLOCK_WHICH_TID, &clock) != 0) return 0;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace loft::os
