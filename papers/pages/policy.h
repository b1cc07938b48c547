// The shape of the caches of batches (5.1 asks for such trials), and what their messages are:
// chosen when the program first allocates.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace engine::pages {

enum class Evict : uint8_t { kLargest, kLru, kFirst, kRandom };
enum class Hash : uint8_t { kMultiply, kShift };

// What a slab's queue of messages has. Objects: as 3.1 built it, and its receiver walks them.
// Batches: the "deeper integration" that 3.1 and 4.2 suggest, where a message says how many objects
// it has.
enum class QueueOf : uint8_t { kObjects, kBatches };

// 3.1 and 4: 16 lists, two ways, the longest list is evicted.
struct Policy {
  bool batching;
  Evict evict = Evict::kLargest;
  Hash hash = Hash::kMultiply;
  uint8_t ways = 2;
  uint8_t sets_log = 3;
  QueueOf queue = QueueOf::kObjects;
};

// Written before there is a heap, under the pool's lock. Whoever has an object, or a heap, sees it.
extern LOFT_HIDDEN Policy policy;
void read_policy();

}  // namespace engine::pages
