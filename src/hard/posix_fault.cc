#include "hard/fault.h"

#include <signal.h>

#include "base/keep_errno.h"
#include "base/options.h"
#include "hard/samples.h"
#include "unwind/fault.h"

namespace loft::hard {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
constexpr unsigned kCount = sizeof kSignals / sizeof kSignals[0];
constinit struct sigaction former[kCount]{};  // written once, before the handlers are there

unsigned place_of(int signal) { return signal == kSignals[0] ? 0 : 1; }

// The instruction is tried again when the handler returns, and then the former one gets the signal.
void give_up(int signal) { sigaction(signal, &former[place_of(signal)], nullptr); }

bool is_a_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& action = former[place_of(signal)];
  if ((static_cast<unsigned>(action.sa_flags) & SA_RESETHAND) != 0 && is_a_handler(action)) {
    struct sigaction none = {};
    sigaction(signal, &none, nullptr);
  }
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  // A fault cannot be ignored: the system takes the default.
  if (!is_a_handler(action)) {
    give_up(signal);
    // One that was sent, as by kill, does not come again by itself.
    if (info->si_code <= 0) raise(signal);
    return;
  }
  action.sa_handler(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const KeepErrno keep;
  const bool goes_on = get(options.guard_fault) == kGuardContinue;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // A page that is opened is not one of code: a call would come here again.
  const bool calls = unwind::is_call(context, address);
  const auto access = calls                         ? Access::kUnknown
                      : unwind::wrote(context) == 0 ? Access::kRead
                      : unwind::wrote(context) == 1 ? Access::kWrite
                                                    : Access::kUnknown;
  const Told told =
      info->si_code <= 0 ? Told::kNothing : tell_of_fault(address, access, goes_on && !calls);
  if (told == Told::kNothing) return pass_on(signal, info, context);
  if (told != Told::kAndOpened) give_up(signal);
}

}  // namespace

void catch_faults() {
  const KeepErrno keep;
  for (unsigned i = 0; i < kCount; ++i) {
    if (sigaction(kSignals[i], nullptr, &former[i]) != 0) continue;
    // A handler of the program's runs as it has asked for: on that stack, and with these signals.
    constexpr int kKept = SA_ONSTACK | SA_NODEFER | SA_RESTART;
    struct sigaction ours = {};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    if (is_a_handler(former[i])) {
      ours.sa_flags = SA_SIGINFO | (former[i].sa_flags & kKept);
      ours.sa_mask = former[i].sa_mask;
    }
    ours.sa_sigaction = on_fault;
    sigaction(kSignals[i], &ours, nullptr);
  }
}

}  // namespace loft::hard
