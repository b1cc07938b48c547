// Compile-time choices for which another choice would be valid too: constants and parts of one
// struct. tools/variants.py builds libraries with other profiles, to measure them. Each profile is
// this file with another struct body.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft {

// Selects the place of a set in which a batch is opened, from the object counts of its two batches.
// An unused place is taken first. Otherwise the fuller batch is sent: it has gathered most and
// costs least per object to send (ISMM'24 3).
struct FullerGoes {
  static bool second(size_t /*set*/, uint32_t in_first, uint32_t in_second) {
    const bool both_used = in_first != 0 && in_second != 0;
    return both_used ? in_second > in_first : in_first != 0;
  }
};

struct Profile {
  // The batch cache (ISMM'24 5.1).
  static constexpr unsigned kBatchWays = 2;  // 1 or 2; the fast path tests each
  static constexpr unsigned kBatchSets = 8;  // a power of two
  using Eviction = FullerGoes;
};

}  // namespace loft
