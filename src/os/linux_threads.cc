// Threads of loft's own, by POSIX.
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <unistd.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/own_thread.h"

namespace loft::os {

namespace {

// The process whose memory this is: that which has loaded loft, or the child of a fork. A child
// that shares its parent's memory has another number, unless both are the first in a namespace of
// their own. Relaxed: written before the process has a second thread.
constinit Atomic<int> process{0};

__attribute__((constructor(101))) void remember_process() {
  process.store(getpid(), memory_order_relaxed);
}

}  // namespace

void* OwnThread::begin(void* self) {
  static_cast<const OwnThread*>(self)->run_();
  return nullptr;
}

void OwnThread::join() {
  if (runs_) pthread_join(__builtin_bit_cast(pthread_t, thread_), nullptr);
  runs_ = false;
}

// Nothing but what pthread_create does itself: no name and no scheduling of its own, which are
// system calls that filters may forbid. It has the priority of the thread that starts it.
bool OwnThread::start(void (*run)()) {
  const KeepErrno keep;
  if (getpid() != process.load(memory_order_relaxed)) return false;
  const Guard guard(lock_);
  join();
  constexpr size_t kStackBytes = 256 * 1024;  // the program's thread-local variables are in it
  pthread_attr_t attributes;
  if (ended_ || pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, most(kStackBytes, static_cast<size_t>(PTHREAD_STACK_MIN)));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask: no signal of the program is ever delivered to it.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  run_ = run;
  runs_ = pthread_create(&thread, &attributes, begin, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!runs_) return false;
  thread_ = __builtin_bit_cast(unsigned long, thread);
  return true;
}

void OwnThread::end(Atomic<uint32_t>& word, uint32_t last) {
  const KeepErrno keep;
  const Guard guard(lock_);
  ended_ = true;
  // Relaxed: the thread acts on the word alone, and its end orders all that it did.
  word.store(last, memory_order_relaxed);
  wake_one(&word);
  join();
}

void OwnThread::stop(Atomic<uint32_t>& word, uint32_t last) {
  const KeepErrno keep;
  const Guard guard(lock_);
  wake_one(&word);
  join();
  // Relaxed, as in end: whoever starts another one finds this one joined, under the lock.
  word.store(last, memory_order_relaxed);
}

bool OwnThread::forget() {
  const bool ended = ended_;
  remember_process();
  lock_.reset();
  runs_ = ended_ = false;
  return ended;
}

// False also where libc does not tell.
bool single_threaded() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

bool on_end_of_first_thread(void (*hook)()) {
  if (!single_threaded() && thread_number() != getpid()) return false;
  static constinit bool key_made = false;
  static pthread_key_t key;
  const auto call = [](void* function) { reinterpret_cast<void (*)()>(function)(); };
  if (!key_made) key_made = pthread_key_create(&key, call) == 0;
  return key_made && pthread_setspecific(key, reinterpret_cast<void*>(hook)) == 0;
}

}  // namespace loft::os
