// Threads of loft's own, by POSIX.
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <unistd.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/own_thread.h"

namespace loft::os {

namespace {

// Whether the caller is a thread that libc has made. A child that shares its parent's memory
// (vfork) has the parent's thread-local storage, and so libc's number of the parent's thread, which
// libc tells without a system call as part of the name of a clock.
bool is_thread_of_libc() {
  clockid_t clock;
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 && ~(clock >> 3) == thread_number();
}

}  // namespace

// It names itself, which is a system call: another's name is written to a file, which would take
// the number that the program may be counting on for its next one.
void* OwnThread::begin(void* self) {
  const auto* mine = static_cast<const OwnThread*>(self);
  pthread_setname_np(pthread_self(), mine->name_);
  mine->run_();
  return nullptr;
}

Start OwnThread::start(const char* name, void (*run)()) {
  const KeepErrno keep;
  if (!is_thread_of_libc()) return Start::kNotHere;
  const Guard guard(lock_);
  constexpr size_t kStackBytes = 256 * 1024;  // the program's thread-local variables are in it
  pthread_attr_t attributes;
  if (ended_ || pthread_attr_init(&attributes) != 0) return Start::kRefused;
  pthread_attr_setstacksize(&attributes, most(kStackBytes, static_cast<size_t>(PTHREAD_STACK_MIN)));
  // Not with the priority of a thread that happens to come by here.
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask: no signal of the program is ever delivered to it.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  name_ = name;
  run_ = run;
  runs_ = pthread_create(&thread, &attributes, begin, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!runs_) return Start::kRefused;
  thread_ = __builtin_bit_cast(unsigned long, thread);
  return Start::kStarted;
}

void OwnThread::end(Atomic<uint32_t>& word, uint32_t last) {
  const KeepErrno keep;
  const Guard guard(lock_);
  ended_ = true;
  // Relaxed: the thread acts on the word alone, and its end orders all that it did.
  word.store(last, memory_order_relaxed);
  wake_one(&word);
  if (runs_) pthread_join(__builtin_bit_cast(pthread_t, thread_), nullptr);
  runs_ = false;
}

bool OwnThread::forget() {
  const bool ended = ended_;
  lock_.reset();
  runs_ = ended_ = false;
  return ended;
}

namespace {

// Without a system call, as every program goes by here. False also where libc does not tell.
bool alone() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace

bool on_end_of_first_thread(void (*hook)()) {
  if (!alone() && thread_number() != getpid()) return false;
  static constinit bool key_made = false;
  static pthread_key_t key;
  const auto call = [](void* function) { reinterpret_cast<void (*)()>(function)(); };
  if (!key_made) key_made = pthread_key_create(&key, call) == 0;
  return key_made && pthread_setspecific(key, reinterpret_cast<void*>(hook)) == 0;
}

}  // namespace loft::os
