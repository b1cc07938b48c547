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

  // Another tick is over. Returns what has been idle: all that nobody needed in any of the last
  // ticks; and of what nobody needed in the last one, two, three, ... what is beyond `reserve`, a
  // half, a quarter, ... of it. So a large surplus goes soon, and a small one when it has proved
  // one.
  size_t tick(size_t now, size_t reserve) {
    in_tick_[next_] = since_tick_;
    since_tick_ = now;
    size_t unneeded = now;
    size_t idle = 0;
    for (unsigned back = 0; back < kTicks; ++back) {
      unneeded = least(unneeded, in_tick_[(next_ + kTicks - back) % kTicks]);
      const size_t kept = back + 1 == kTicks ? 0 : reserve >> back;
      idle = most(idle, unneeded - least(unneeded, kept));
    }
    next_ = (next_ + 1) % kTicks;
    return idle;
  }

 private:
  size_t since_tick_ = 0;
  size_t in_tick_[kTicks] = {};
  unsigned next_ = 0;
};

}  // namespace loft
