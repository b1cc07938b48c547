// What loft's floors ask the system for, answered by the simulated machine: waits, which must not
// stop it, and what would differ from run to run. The linker sends their calls here (--wrap), by
// the names that the compiler gives the functions of os/os.h and os/own_thread.h.
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "os/own_thread.h"
#include "simulation/machine.h"

namespace {

// An explicit instantiation may name what is private.
using Run = void (*const loft::os::OwnThread::*)();
template <Run member>
struct Opener {
  friend auto what_it_runs(const loft::os::OwnThread& thread) { return thread.*member; }
};
template struct Opener<&loft::os::OwnThread::run_>;
auto what_it_runs(const loft::os::OwnThread& thread);

}  // namespace

extern "C" {

// loft::os::wait_on_word, and the same for a time, which nothing that is simulated is woken from.
void __real__ZN4loft2os12wait_on_wordEPKvj(const void* word, uint32_t expected);
void __wrap__ZN4loft2os12wait_on_wordEPKvj(const void* word, uint32_t expected) {
  if (!machine::is_inside()) return __real__ZN4loft2os12wait_on_wordEPKvj(word, expected);
  machine::advance(machine::kSystemCall);
  machine::let_others();
  if (*static_cast<const volatile uint32_t*>(word) == expected) machine::sleep(word);
}

// loft::os::wake_one
void __real__ZN4loft2os8wake_oneEPKv(const void* word);
void __wrap__ZN4loft2os8wake_oneEPKv(const void* word) {
  if (!machine::is_inside()) return __real__ZN4loft2os8wake_oneEPKv(word);
  machine::advance(machine::kSystemCall);
  machine::let_others();
  machine::wake_one(word, machine::kSystemCall);
}

// loft::os::pause_briefly
void __real__ZN4loft2os13pause_brieflyEv();
void __wrap__ZN4loft2os13pause_brieflyEv() {
  if (!machine::is_inside()) return __real__ZN4loft2os13pause_brieflyEv();
  machine::spin();
}

// loft::os::doze: 50 microseconds
void __real__ZN4loft2os4dozeEv();
void __wrap__ZN4loft2os4dozeEv() {
  if (!machine::is_inside()) return __real__ZN4loft2os4dozeEv();
  machine::advance(50'000 * machine::kNanosecond);
  machine::let_others();
}

// loft::os::now_ns. No processor may see it go back, so it is that of the fastest that asked.
uint64_t __wrap__ZN4loft2os6now_nsEv() {
  static uint64_t last = 1;
  if (machine::is_inside()) last = std::max(last, 1 + machine::clock() / machine::kNanosecond);
  return last;
}

// loft::os::random_bytes
void __wrap__ZN4loft2os12random_bytesEPvm(void* to, size_t bytes) { std::memset(to, 0x5a, bytes); }

// loft::os::processors
size_t __real__ZN4loft2os10processorsEv();
size_t __wrap__ZN4loft2os10processorsEv() {
  return machine::is_inside() ? machine::processors() : __real__ZN4loft2os10processorsEv();
}

// loft::os::thread_number
int __real__ZN4loft2os13thread_numberEv();
int __wrap__ZN4loft2os13thread_numberEv() {
  return machine::is_inside() ? static_cast<int>(machine::processor()) + 1
                              : __real__ZN4loft2os13thread_numberEv();
}

// sched_yield: a thread of the engines' that waits for another one's start.
int __real_sched_yield();
int __wrap_sched_yield() {
  if (!machine::is_inside()) return __real_sched_yield();
  machine::advance(machine::kSystemCall);
  machine::let_others();
  return 0;
}

// sched_getaffinity and sched_setaffinity: there are processors for all, whatever runs this has.
int __wrap_sched_getaffinity(pid_t, size_t bytes, cpu_set_t* set) {
  std::memset(set, 0xff, bytes);
  return 0;
}
int __wrap_sched_setaffinity(pid_t, size_t, const cpu_set_t*) { return 0; }

// loft::os::OwnThread::start. Without a processor for it the process may have no more threads: loft
// then does the work of its background thread elsewhere.
bool __wrap__ZN4loft2os9OwnThread5startEPFbvE(loft::os::OwnThread* thread, bool (*may)()) {
  return machine::is_inside() && may() && machine::start_room(what_it_runs(*thread));
}

}  // extern "C"
