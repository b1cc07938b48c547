// The least value of an amount during the last ticks: the part that nobody needed for that long.
// The caller holds the lock that guards the amount.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace loft {

template <unsigned kTicks>
class LowWater {
 public:
  // Called when the amount may have fallen.
  void see(size_t now) { since_tick_ = least(since_tick_, now); }

  // `bytes` of the unneeded part were removed.
  void take(size_t bytes) {
    for (size_t& mark : in_tick_) mark -= least(mark, bytes);
    since_tick_ -= least(since_tick_, bytes);
  }

  // Ends so many ticks, of which nobody has seen the amounts apart. Returns the idle amount, which
  // is the largest of: (a) the amount unneeded in all of the last kTicks ticks; (b) of the amount
  // unneeded in the last one, two, three, ... ticks, the part above `reserve`, a half, a quarter,
  // ... of it. A large surplus is idle soon, a small one only after it has lasted.
  size_t tick(size_t now, size_t reserve, unsigned passed) {
    for (; passed > 1; --passed) {
      in_tick_[next_] = since_tick_;
      next_ = (next_ + 1) % kTicks;
    }
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

// How long free spans stay resident, in ticks; space/span.h says how the numbers are used.
namespace loft::span {

inline constexpr unsigned kDecayTicks = 5;
inline constexpr unsigned kPlentyShare = 4;
inline constexpr unsigned kDecayTicksOfPlenty = 2;  // not one: the first may have been short

}  // namespace loft::span

namespace loft {

// Observations from outside, of a processor or a heap. Guarded by a lock of who looks.
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
