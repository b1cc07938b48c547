// Signals of loft's own writes, where another thread takes what was sent to the process.
#include <gtest/gtest.h>
#include <signal.h>

#include "files/output.h"

namespace {
bool all_pending = false;
}

// In libc's place: says of signals that they are pending, as if another thread took them
// afterwards.
extern "C" int sigpending(sigset_t* set) noexcept {
  return all_pending ? sigfillset(set) : sigemptyset(set);
}

namespace loft {
namespace {

TEST(WithoutSignals, WaitsForNoneThatAnotherThreadHasTaken) {
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  all_pending = true;
  {
    const files::WithoutSignals none;
  }
  all_pending = false;
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
  }
}

TEST(WithoutSignals, TakesItsOwn) {
  all_pending = true;
  {
    const files::WithoutSignals none;
    raise(SIGPIPE);
    raise(SIGXFSZ);
  }
  all_pending = false;
  // Neither has ended the process.
}

}  // namespace
}  // namespace loft
