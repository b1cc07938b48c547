// A thread of loft's own: all signals blocked, with a small stack. libc counts it among the
// program's: a process whose first thread has ended by itself goes on until the last thread ends,
// so that ours have to end before that.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/lock.h"

namespace loft::os {

enum class Start {
  kStarted,
  kNotHere,  // this caller cannot have it started; others can
  kRefused,  // the process may have no more threads, or since `end`
};

class OwnThread {
 public:
  // kNotHere for a child that shares its parent's memory (vfork): the thread would be the child's
  // and end with it, while the parent believed for ever that it had one.
  Start start(const char* name, void (*run)());
  // Puts `last` into `word`, which makes `run` return, wakes the thread if it sleeps on the word,
  // and waits until it has ended. There is no other one after it.
  void end(Atomic<uint32_t>& word, uint32_t last);
  // In the child of a fork, which does not have it, and may start one. Whether it was ended.
  bool forget();

 private:
  static void* begin(void* self);

  Lock lock_;
  const char* name_ = nullptr;
  void (*run_)() = nullptr;
  unsigned long thread_ = 0;  // a pthread_t
  bool runs_ = false;
  bool ended_ = false;
};

// `hook` runs when the caller ends by itself (pthread_exit), if it is the process's first thread;
// not when the process ends. At most one hook. False if it will not run.
bool on_end_of_first_thread(void (*hook)());

}  // namespace loft::os
