// For loft and libloft-inspect, which has a copy.
#pragma once

#include <signal.h>
#include <time.h>

#include <initializer_list>

#include "base/keep.h"

namespace loft::files {

// In its scope, a file that may not grow and a queue that nobody reads any more are errors of the
// calling thread's writes, and no signals. Keeps errno.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t both;
    sigemptyset(&both);
    for (const int signal : kOfWrites) sigaddset(&both, signal);
    pthread_sigmask(SIG_BLOCK, &both, &before_);
  }
  // A signal that the program keeps off may be pending already, and stays the program's.
  ~WithoutSignals() {
    const KeepErrno keep;
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    for (const int signal : kOfWrites) {
      if (sigismember(&before_, signal) != 0 || sigismember(&pending, signal) == 0) continue;
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      // Another thread may take it first, if it was sent to the process.
      const timespec none = {};
      sigtimedwait(&one, nullptr, &none);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  static constexpr int kOfWrites[] = {SIGPIPE, SIGXFSZ};

  sigset_t before_;  // the thread's mask
};

}  // namespace loft::files
