// The shape of the caches of batches, chosen when the program starts (5.1 asks for such trials).
#pragma once

#include <cstdint>

namespace engine::pages {

enum class Evict : uint8_t { kLargest, kLru, kFirst, kRandom };
enum class Hash : uint8_t { kMultiply, kShift };

// 3.1 and 4: 16 lists, two ways, the longest list is evicted.
struct Policy {
  bool batching;
  Evict evict = Evict::kLargest;
  Hash hash = Hash::kMultiply;
  uint8_t ways = 2;
  uint8_t sets_log = 3;
  uint8_t unused[3] = {};
};

Policy policy();

}  // namespace engine::pages
