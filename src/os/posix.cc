// The part of os/os.h that POSIX alone is enough for.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/keep_errno.h"
#include "base/raw_file.h"
#include "os/at_fault.h"
#include "os/os.h"
#include "os/posix_calls.h"

namespace loft::os {

namespace {

pthread_key_t exit_key;
// Release and acquire pair: a thread that sees the flag set also sees the value of exit_key.
constinit Atomic<bool> exit_key_made{false};

}  // namespace

constinit Atomic<unsigned long> map_calls{0};
constinit Atomic<unsigned long> discard_calls{0};

constinit LOFT_TLS __thread bool at_fault = false;

size_t address_space_limit() {
  const KeepErrno keep;
  struct rlimit limit;
  const bool told = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return told ? limit.rlim_cur : kNoLimit;
}

int write_all(int file, const char* text, size_t bytes) {
  const KeepErrno keep;
  while (bytes != 0) {
    const ssize_t written = raw::write_file(file, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

void abort_process() {
  // A second fault, inside a handler of the first. The handler has had its chance.
  if (at_fault) signal(SIGABRT, SIG_DFL);
  at_fault = true;
  abort();
}

bool on_thread_exit(void (*hook)(void*)) {
  const bool made = pthread_key_create(&exit_key, hook) == 0;
  exit_key_made.store(made, memory_order_release);
  return made;
}
bool set_thread_exit_value(void* value) {
  const KeepErrno keep;
  // Without the check, exit_key could be the key of other code.
  return exit_key_made.load(memory_order_acquire) && pthread_setspecific(exit_key, value) == 0;
}
void* thread_exit_value() {
  return exit_key_made.load(memory_order_acquire) ? pthread_getspecific(exit_key) : nullptr;
}

void on_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  pthread_atfork(prepare, parent, child);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// A futex, because sched_yield lets no thread of lower priority run.
void doze() {
  static const uint32_t nobody_wakes = 0;
  wait_on_word_for(&nobody_wakes, 0, 50'000);  // nanoseconds
}

Calls calls() {
  return {map_calls.load(memory_order_relaxed), discard_calls.load(memory_order_relaxed)};
}

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace loft::os
