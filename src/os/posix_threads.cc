// Threads of loft's own, with POSIX threads: what own_thread.cc asks of the system.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/posix_threads.h"

namespace loft::os {

namespace {

constexpr size_t kStackBytes = 256 * 1024;  // includes the program's thread-local variables

bool create_thread(pthread_t* thread, void* (*begin)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, most(kStackBytes, static_cast<size_t>(PTHREAD_STACK_MIN)));
  int error = pthread_create(thread, &attributes, begin, argument);
  pthread_attr_destroy(&attributes);
  // The program's thread-local variables do not fit into kStackBytes.
  if (error == EINVAL) error = pthread_create(thread, nullptr, begin, argument);
  return error == 0;
}

}  // namespace

Unseen::Unseen() : error_(static_cast<unsigned>(errno)) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation_);
}

Unseen::~Unseen() {
  pthread_setcancelstate(cancellation_, nullptr);
  errno = static_cast<int>(error_);
}

bool OwnThread::caller_may_create() { return is_thread_of_libc(); }

void OwnThread::join() {
  if (runs_.load(memory_order_relaxed)) {
    pthread_join(__builtin_bit_cast(pthread_t, thread_), nullptr);
  }
  runs_.store(false, memory_order_relaxed);
}

// The thread gets no name and no scheduling of its own: both need further system calls, which
// filters may forbid. It has the priority of the thread that starts it.
bool OwnThread::create() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask, so it never receives a signal of the program.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  has_returned_.store(false, memory_order_relaxed);
  const bool created = create_thread(&thread, begin, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (created) thread_ = __builtin_bit_cast(unsigned long, thread);
  runs_.store(created, memory_order_relaxed);
  return created;
}

void OwnThread::forget() {
  // A refusal for another reason than `end` holds in the child, too.
  if (ended_ || word_.load(memory_order_relaxed) != states_.refused) {
    word_.store(states_.nobody, memory_order_relaxed);
  }
  lock_.reset();
  ended_ = false;
  runs_.store(false, memory_order_relaxed);
}

bool on_end_of_first_thread(void (*hook)(), bool is_first) {
  if (!is_first && !is_first_thread()) return false;
  static constinit bool key_made = false;
  static pthread_key_t key;
  const auto call = [](void* function) { reinterpret_cast<void (*)()>(function)(); };
  if (!key_made) key_made = pthread_key_create(&key, call) == 0;
  return key_made && pthread_setspecific(key, reinterpret_cast<void*>(hook)) == 0;
}

}  // namespace loft::os
