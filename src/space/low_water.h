// The least that an amount was during the last ticks: what of it nobody needed for so long. The
// caller holds the lock that guards it.
#pragma once

#include <cstddef>

#include "base/bits.h"

namespace loft {

template <unsigned kTicks>
class LowWater {
 public:
  // The amount may have fallen.
  void see(size_t now) { since_tick_ = least(since_tick_, now); }

  // So much of what nobody needed is gone.
  void take(size_t bytes) {
    for (size_t& mark : in_tick_) mark -= least(mark, bytes);
    since_tick_ -= least(since_tick_, bytes);
  }

  // What nobody needed in the tick that is about to be over.
  size_t in_this_tick() const { return since_tick_; }

  // Another tick is over. Returns what nobody needed in any of the last ones.
  size_t tick(size_t now) {
    in_tick_[next_] = since_tick_;
    next_ = (next_ + 1) % kTicks;
    since_tick_ = now;
    size_t idle = now;
    for (const size_t mark : in_tick_) idle = least(idle, mark);
    return idle;
  }

 private:
  size_t since_tick_ = 0;
  size_t in_tick_[kTicks] = {};
  unsigned next_ = 0;
};

}  // namespace loft
