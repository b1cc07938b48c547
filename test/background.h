// Time passes for loft's background thread, or for who stands in for it.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "control.h"
#include "runtime/background.h"

namespace loft::test {

inline bool has_background_thread() { return background::has_thread(); }

// The background thread, if there is one, has done what is due.
inline void wait_for_background_thread() {
  while (has_background_thread() && !naps_on(&background::state)) sched_yield();
}

// The clock moves, and after each step of ten milliseconds, the shortest tick, loft looks around if
// a tick is due: its background thread, or without one the slow paths that the caller stands for,
// until they have done all that was due.
inline void pass_ms(uint64_t milliseconds) {
  constexpr uint64_t kStep = 10;
  constexpr unsigned kLooks = 1000;
  wait_for_background_thread();
  for (uint64_t passed = 0; passed < milliseconds; passed += kStep) {
    advance_ms(std::min(kStep, milliseconds - passed));
    wait_for_background_thread();
    if (!has_background_thread()) {
      for (unsigned looks = 0; looks < kLooks; ++looks) background::look();
    }
  }
}

}  // namespace loft::test
