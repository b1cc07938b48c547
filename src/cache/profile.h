// Compile-time choices for which another choice would be valid too: constants and parts of one
// struct. tools/variants.py builds libraries with other profiles, to measure them. Each profile is
// this file with another struct body.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft {

// What the choice of a batch to evict goes by: its objects now, and those when the other
// batch of its set was opened; 0 if it was opened later.
struct Gathered {
  uint32_t now;
  uint32_t before;
  uint32_t grown() const { return now - before; }
};

// Whether the second batch of a full set is sent, to open one for a third slab. The batch goes that
// has gathered less since both are open: its slab is probably the one out of use. ISMM'24 3 sends
// the largest, which is often the one in use (docs/decisions/016).
struct LeastGrownGoes {
  static bool second(size_t /*set*/, Gathered first, Gathered second) {
    return second.grown() < first.grown();
  }
};

struct Profile {
  // The batch cache (ISMM'24 5.1).
  static constexpr unsigned kBatchWays = 2;  // 1 or 2; the fast path tests each
  static constexpr unsigned kBatchSets = 8;  // a power of two
  using Eviction = LeastGrownGoes;

  // Bytes of freed objects of one slab that make a full batch, and of objects in the outbox that
  // are posted together. Half of either cost malloc-test a seventh of its throughput or more, a
  // sixteenth 0.4; four times as much gained nothing, and keeps that much more from the heaps
  // (decisions/016).
  static constexpr size_t kBatchBytes = 16384;
  static constexpr size_t kOutboxBytes = 65536;
};

}  // namespace loft
