// What loft's floors ask the system for, answered by the simulated machine: waits, which must not
// stop it, and what would differ from run to run. The linker sends their calls here (--wrap), by
// the names that the compiler gives the functions of os/os.h and os/own_thread.h.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simulation/machine.h"

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

// loft::os::OwnThread::start. The process may have no more threads: loft then does the work of its
// background thread elsewhere.
bool __wrap__ZN4loft2os9OwnThread5startEPFbvE(void*, bool (*)()) { return false; }

}  // extern "C"
