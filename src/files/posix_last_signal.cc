#include "files/last_signal.h"

#include <signal.h>

#include "base/atomic.h"
#include "base/keep_errno.h"

namespace loft::files {

namespace {

// Release pairs with the acquire in the handlers, which another thread may run.
constinit Atomic<void (*)()> hook_of_end{nullptr};
constinit Atomic<void (*)()> hook_of_signal{nullptr};

void end(int signal) {
  const KeepErrno keep;
  if (auto* const hook = hook_of_end.load(memory_order_acquire); hook != nullptr) hook();
  struct sigaction ends = {};
  ends.sa_handler = SIG_DFL;
  sigaction(signal, &ends, nullptr);
  // Blocked while this runs; it takes effect on return.
  raise(signal);
}

void act(int) {
  const KeepErrno keep;
  if (auto* const hook = hook_of_signal.load(memory_order_acquire); hook != nullptr) hook();
}

using Handler = void (*)(int);

bool is_handled_by(int signal, Handler handler) {
  struct sigaction present = {};
  return sigaction(signal, nullptr, &present) == 0 && (present.sa_flags & SA_SIGINFO) == 0 &&
         present.sa_handler == handler;
}

// Puts one handler in the place of another. False if it is not there.
bool replace(int signal, Handler former, Handler handler) {
  if (!is_handled_by(signal, former)) return false;
  struct sigaction ours = {};
  ours.sa_handler = handler;
  // Not on an alternate stack: those that programs and runtimes set up have 8 KiB.
  ours.sa_flags = SA_RESTART;
  return sigaction(signal, &ours, nullptr) == 0;
}

}  // namespace

void on_termination(void (*hook)()) {
  const KeepErrno keep;
  hook_of_end.store(hook, memory_order_release);
  replace(SIGTERM, SIG_DFL, end);
}

bool on_signal(unsigned signal, void (*hook)()) {
  const KeepErrno keep;
  static constinit Atomic<unsigned> watched{0};  // relaxed: a number by itself
  const unsigned former = watched.exchange(signal, memory_order_relaxed);
  if (former == signal) return true;
  hook_of_signal.store(hook, memory_order_release);
  if (former != 0) replace(static_cast<int>(former), act, SIG_DFL);
  return signal == 0 || replace(static_cast<int>(signal), SIG_DFL, act);
}

}  // namespace loft::files
