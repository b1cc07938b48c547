// What is chosen when loft is compiled, where another choice would be right as well: the constants
// and parts of one struct. tools/variants.py builds libraries with other profiles, to measure them;
// each is this file with other words in the struct.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft {

// Which of a set's two places a batch is opened in, whose batches hold so many objects: an unused
// one, or else the fuller one's, which is sent for it. That one has gathered most, and costs least
// per object to send (ISMM'24 3).
struct FullerGoes {
  static bool second(size_t /*set*/, uint32_t in_first, uint32_t in_second) {
    const bool both_used = in_first != 0 && in_second != 0;
    return both_used ? in_second > in_first : in_first != 0;
  }
};

struct Profile {
  // The batch cache (ISMM'24 5.1).
  static constexpr unsigned kBatchWays = 2;  // 1 or 2: the fast path tests each
  static constexpr unsigned kBatchSets = 8;  // a power of two
  using Eviction = FullerGoes;
};

}  // namespace loft
