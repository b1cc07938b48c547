#include "files/last_signal.h"

#include <signal.h>

#include "base/atomic.h"
#include "base/keep_errno.h"

namespace loft::files {

namespace {

// Release pairs with the acquire in the handler, which another thread may run.
constinit Atomic<void (*)()> hook_of_end{nullptr};

void end(int signal) {
  const KeepErrno keep;
  if (auto* const hook = hook_of_end.load(memory_order_acquire); hook != nullptr) hook();
  struct sigaction ends = {};
  ends.sa_handler = SIG_DFL;
  sigaction(signal, &ends, nullptr);
  // Blocked while this runs; it takes effect on return.
  raise(signal);
}

}  // namespace

void on_termination(void (*hook)()) {
  const KeepErrno keep;
  hook_of_end.store(hook, memory_order_release);
  struct sigaction present = {};
  if (sigaction(SIGTERM, nullptr, &present) != 0) return;
  if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) return;
  struct sigaction ours = {};
  ours.sa_handler = end;
  // Not on an alternate stack: those that programs and runtimes set up have 8 KiB.
  ours.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &ours, nullptr);
}

}  // namespace loft::files
