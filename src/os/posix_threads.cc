// Threads of loft's own, with POSIX threads.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/posix_threads.h"

namespace loft::os {

namespace {

constexpr size_t kStackBytes = 256 * 1024;  // includes the program's thread-local variables
constexpr uint64_t kPauseNs = 1'000'000'000;

// Disables cancellation of the caller in its scope: the functions below wait with a lock held.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_;
};

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

void* OwnThread::begin(void* self) {
  auto* const thread = static_cast<OwnThread*>(self);
  thread->run_();
  // Relaxed: a thread that sees it next waits for the end of this thread.
  thread->has_returned_.store(true, memory_order_relaxed);
  return nullptr;
}

void OwnThread::join() {
  if (runs_.load(memory_order_relaxed)) {
    pthread_join(__builtin_bit_cast(pthread_t, thread_), nullptr);
  }
  runs_.store(false, memory_order_relaxed);
}

bool OwnThread::is_about_to_end() const {
  return runs_.load(memory_order_relaxed) && !has_returned_.load(memory_order_relaxed);
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

// Relaxed, here and below: the thread acts on the word alone. Its creation and its join order all
// its other accesses.
bool OwnThread::start(bool (*may)()) {
  const KeepErrno keep;
  const NoCancellation no_cancellation;
  if (word_.load(memory_order_relaxed) != states_.nobody || is_about_to_end()) return false;
  if (now_ns() < next_try_.load(memory_order_relaxed) || !is_thread_of_libc()) return false;
  // The lock's holder starts the thread or waits for its end. Callers of start wait for neither.
  if (!lock_.try_lock()) return false;
  bool started = false;
  if (!ended_ && !is_about_to_end()) {
    join();
    uint32_t expected = states_.nobody;
    if (may() && word_.compare_exchange_strong(expected, states_.running, memory_order_relaxed)) {
      started = create();
      if (!started) {
        next_try_.store(now_ns() + kPauseNs, memory_order_relaxed);
        word_.store(states_.nobody, memory_order_relaxed);
      }
    }
  }
  lock_.unlock();
  return started;
}

void OwnThread::stop() {
  const KeepErrno keep;
  const NoCancellation no_cancellation;
  const Guard guard(lock_);
  if (!runs_.load(memory_order_relaxed)) return;
  word_.store(states_.leaving, memory_order_relaxed);
  wake_one(&word_);
  join();
  word_.store(states_.nobody, memory_order_relaxed);
}

void OwnThread::end() {
  const KeepErrno keep;
  const NoCancellation no_cancellation;
  const Guard guard(lock_);
  ended_ = true;
  word_.store(states_.refused, memory_order_relaxed);
  wake_one(&word_);
  join();
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
