// Threads on Linux: which one the caller is, and what one of loft's own begins with.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/single_thread.h"
#include "os/os.h"
#include "os/posix_threads.h"
#include "os/symbols.h"

#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

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

// Older C libraries have it in a library of its own. (The loader is asked, which may allocate: no
// lock of an allocation is held where threads start.)
CreateThread creator_of_threads() {
  if (kSanitized || !is_own_library() || dlopen == nullptr || dlsym == nullptr)
    return pthread_create;
  for (const char* library : {"libc.so.6", "libpthread.so.0"}) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* const found = dlsym(handle, "pthread_create");
    dlclose(handle);
    if (found != nullptr) return reinterpret_cast<CreateThread>(found);
  }
  return pthread_create;
}

// Where the system refuses, the thread goes on as it is.
void settle_in(const char* name) {
  prctl(PR_SET_NAME, name);
  size_t processors[128];
  const long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof(processors), processors);
  if (bytes > 0) syscall(SYS_sched_setaffinity, 0, bytes, processors);
}

}  // namespace loft::os
