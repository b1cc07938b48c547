// When the next sample is due. Each thread counts the bytes that it is given, in objects of their
// full length in memory, down to its next sample. A charge for an object that was not to be had is
// taken back as if it had not been made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::profile {

// Whether samples are taken. Relaxed: a thread that sees a change late samples a little longer, or
// later.
extern LOFT_HIDDEN Atomic<bool> is_on;
inline bool on() { return is_on.load(memory_order_relaxed); }

// Mean bytes between two samples, at least 1.
uint64_t mean_bytes();

struct Progress {
  uint64_t left;    // bytes to the next sample
  uint64_t random;  // state of the generator; 0: none yet
  uint64_t mean;    // that `left` was drawn with
};
extern LOFT_HIDDEN LOFT_TLS __thread Progress progress;
inline Progress& mine() { return progress; }

// Draws the distance to the next sample anew.
LOFT_COLD void draw();

// Bytes that the thread may be given before its next sample.
inline uint64_t room() {
  if (LOFT_UNLIKELY(mine().mean != mean_bytes())) draw();
  return mine().left;
}
inline void charge(uint64_t bytes) { mine().left -= bytes; }  // bytes <= room()
inline void give_back(uint64_t bytes) { mine().left += bytes; }

// Charges an object. False, with nothing charged, if the sample falls on it.
inline bool passes(uint64_t bytes) {
  if (room() < bytes) return false;
  charge(bytes);
  return true;
}

// Before samples are taken, and when options change.
void set_mean(uint64_t bytes);
bool changes_mean(uint64_t bytes);  // whether set_mean would

}  // namespace loft::profile
