// A thread of loft's own, with a small stack and all signals blocked. libc counts it as a thread of
// the program. If the first thread of a process has ended by itself, the process lives until its
// last thread ends. loft's threads must therefore end first.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/atomic.h"
#include "os/lock.h"

namespace loft::os {

class OwnThread {
 public:
  // Values of the thread's word. A running thread may use more values.
  struct States {
    uint32_t nobody;   // no thread runs, or the last one is about to end
    uint32_t running;  // set by start
    uint32_t leaving;  // the thread was told to return, and may be waited for
    uint32_t refused;  // the thread was told to return, and no other one will be started
  };

  // `run` returns (a) once the word tells it to; or (b) by itself, with the word at `nobody`. It
  // may sleep on the word. `name`: 15 characters at most.
  constexpr OwnThread(const char* name, Atomic<uint32_t>& word, States states, void (*run)())
      : name_(name), word_(word), states_(states), run_(run) {}

  // Starts a thread if there is none and `may` returns true. `may` runs under the lock that the
  // other functions take. Code that makes `may` return false must call stop afterwards. Returns
  // true only if it started a thread. Reasons for false include: (a) the last thread is about to
  // end; (b) the process may have no more threads; (c) the caller is a child that shares its
  // parent's memory (vfork). In (c) the thread would belong to the child and end with it, and the
  // parent would believe for ever that it had one. After a refusal by the system, start does not
  // try again for a second.
  bool start(bool (*may)());
  // Returns when the thread has ended. Another one may be started.
  void stop();
  // As stop, but no other thread will be started.
  void end();
  // In the child of a fork, which has no such thread. The child may start one, unless the word said
  // `refused` for another reason than `end`.
  void forget();

 private:
  bool is_about_to_end() const;

  bool create();
  void join();

  Lock lock_;
  const char* const name_;
  Atomic<uint32_t>& word_;
  const States states_;
  void (*const run_)();
  pthread_t thread_{};
  bool ended_ = false;
  Atomic<uint64_t> next_try_{0};      // relaxed, like the word
  Atomic<bool> runs_{false};          // the thread must be joined; changed under the lock
  Atomic<bool> has_returned_{false};  // set by the thread itself
  Atomic<uint32_t> has_settled_{0};   // the same
};

// If the caller is the process's first thread, `hook` runs when the caller ends by itself
// (pthread_exit), but not when the process ends. There is at most one hook. False if it will not
// run. `is_first`: the caller knows that it is the first thread, as in the child of a fork.
bool on_end_of_first_thread(void (*hook)(), bool is_first);

// For a thread of loft's own. Gives it a separate, empty table of file descriptors: files that it
// opens do not disturb the program, and the program cannot close them. False if the system cannot.
bool leave_files();

}  // namespace loft::os
