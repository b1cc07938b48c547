// Observations from outside, of a processor or a heap. Guarded by a lock of who looks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/low_water.h"

namespace loft {

struct Idle {
  uint32_t looks;  // consecutive ones without a change
  size_t seen;     // at the last look

  // One more look, so many ticks after the last. True once nothing has changed for a whole
  // decay_ms: what changed just before the first look is as old as that at the last.
  bool look(size_t now, unsigned ticks) {
    looks = now == seen ? looks + ticks : 0;
    seen = now;
    return looks + 1 >= span::kDecayTicks;
  }
};

}  // namespace loft
