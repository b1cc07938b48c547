#include "files/last_signal.h"

#include <signal.h>

#include <initializer_list>

#include "base/atomic.h"
#include "base/keep.h"
#include "files/output.h"
#include "os/os.h"

namespace loft::files {

namespace {

// Release pairs with the acquire in the handlers, which another thread may run.
constinit Atomic<void (*)()> hook_of_end{nullptr};
constinit Atomic<void (*)()> hook_of_signal{nullptr};

// Twice the number of the process in which a thread runs the last hook, and one more once it has:
// the child of a fork has an end of its own. Release, where the hook has run, pairs with the
// acquire of those who wait for it. Relaxed where a thread takes it: nothing comes before.
constinit Atomic<uint32_t> last_run{0};

// For each of the threads that wait: whoever is woken wakes the next one.
void wait_for_last(uint32_t running) {
  while (last_run.load(memory_order_acquire) == running) os::wait_on_word(&last_run, running);
  os::wake_one(&last_run);
}

void end(int signal) {
  const KeepErrno keep;
  if (auto* const hook = hook_of_end.load(memory_order_acquire); hook != nullptr) run_last(hook);
  struct sigaction ends = {};
  ends.sa_handler = SIG_DFL;
  sigaction(signal, &ends, nullptr);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  // The system spares the first process of a container, which goes on, and ends another time.
  last_run.store(0, memory_order_relaxed);
}

void act(int) {
  const KeepErrno keep;
  if (auto* const hook = hook_of_signal.load(memory_order_acquire); hook != nullptr) hook();
}

using Action = void (*)(int);

bool is_handled_by(int signal, Action action) {
  struct sigaction present = {};
  return sigaction(signal, nullptr, &present) == 0 && (present.sa_flags & SA_SIGINFO) == 0 &&
         present.sa_handler == action;
}

// Puts one action in the place of another. False if it is not there.
bool replace(int signal, Action former, Action action) {
  if (!is_handled_by(signal, former)) return false;
  struct sigaction ours = {};
  ours.sa_handler = action;
  // Not on an alternate stack: those that programs and runtimes set up have 8 KiB.
  ours.sa_flags = SA_RESTART;
  return sigaction(signal, &ours, nullptr) == 0;
}

}  // namespace

void run_last(void (*hook)()) {
  const KeepErrno keep;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Of a fault the system would make an end without a report; and WithoutSignals takes those of its
  // own writes only where they are not kept off already.
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGPIPE, SIGXFSZ}) {
    sigdelset(&all, signal);
  }
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const uint32_t running = process_number() * 2;
  uint32_t found = last_run.load(memory_order_relaxed);
  while (found / 2 != running / 2 &&
         !last_run.compare_exchange_strong(found, running, memory_order_relaxed,
                                           memory_order_relaxed)) {
  }
  if (found / 2 == running / 2) {
    wait_for_last(running);
  } else {
    hook();
    last_run.store(running + 1, memory_order_release);
    os::wake_one(&last_run);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

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
