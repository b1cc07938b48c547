// A thread of loft's own: all signals blocked, with a small stack. libc counts it among the
// program's: a process whose first thread has ended by itself goes on until the last thread ends,
// so that ours have to end before that.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/lock.h"

namespace loft::os {

class OwnThread {
 public:
  // What the thread's word may say. It says more while the thread runs, if the thread likes.
  struct States {
    uint32_t nobody;   // none runs, or the last one is about to end
    uint32_t running;  // put there by start
    uint32_t leaving;  // it was told to return, and may be waited for
    uint32_t refused;  // it was told so, and there is no other one after it
  };

  // `run` returns once the word tells it to, or by itself, with the word at `nobody`. It may sleep
  // on the word.
  constexpr OwnThread(Atomic<uint32_t>& word, States states, void (*run)())
      : word_(word), states_(states), run_(run) {}

  // Starts one if there is none and `may` says so, which is asked under the lock that the others
  // take: whoever makes its answer no calls stop after that. False if there is none then: one that
  // is about to end has not done so yet, the process may have no more threads, or the caller is a
  // child that shares its parent's memory (vfork): the thread would be the child's and end with it,
  // while the parent believed for ever that it had one. What the system refused is not tried again
  // for a second.
  bool start(bool (*may)());
  // Returns when the thread has ended. Another one may be started.
  void stop();
  // The same, but there is no other one after it.
  void end();
  // In the child of a fork, which does not have it, and may start one unless none is to be had.
  void forget();

 private:
  static void* begin(void* self);
  bool is_about_to_end() const;
  bool create();
  void join();

  Lock lock_;
  Atomic<uint32_t>& word_;
  const States states_;
  void (*const run_)();
  unsigned long thread_ = 0;  // a pthread_t
  bool ended_ = false;
  Atomic<uint64_t> next_try_{0};  // relaxed, as the word
  Atomic<bool> runs_{false};      // it has to be joined; changed under the lock, as are the others
  Atomic<bool> has_returned_{false};
};

// `hook` runs when the caller ends by itself (pthread_exit), if it is the process's first thread;
// not when the process ends. At most one hook. False if it will not run. `is_first`: the caller
// knows that it is, as in the child of a fork.
bool on_end_of_first_thread(void (*hook)(), bool is_first);

}  // namespace loft::os
