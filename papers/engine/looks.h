// How many messages a thread's calls took in, each: what engine.h's Counts sums up.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "engine/engine.h"

namespace engine {

// Of one thread, which writes it.
class Looks {
 public:
  void note(uint64_t taken) {
    if (taken == 0) return;
    looks_[entry_of(taken)].add(1);
    if (taken > longest_.get()) longest_.add(taken - longest_.get());
  }
  void add_to(Counts& sum) const {
    for (unsigned i = 0; i < Counts::kLooks; ++i) sum.looks[i] += looks_[i].get();
    sum.longest_look = loft::most(sum.longest_look, longest_.get());
  }

  // 1, 2, 3, 4, 6, 8, 12: two to a power of two from 2 on.
  static constexpr unsigned entry_of(uint64_t taken) {
    const unsigned log = 63u - static_cast<unsigned>(__builtin_clzll(taken));
    if (log == 0) return 0;
    return loft::least(2 * log - 1 + static_cast<unsigned>(taken >> (log - 1) & 1),
                       Counts::kLooks - 1);
  }
  static constexpr uint64_t least_of(unsigned entry) {
    return entry == 0 ? 1 : uint64_t{2 + (entry + 1) % 2} << (entry - 1) / 2;
  }

 private:
  loft::Counter looks_[Counts::kLooks];
  loft::Counter longest_;
};

}  // namespace engine
