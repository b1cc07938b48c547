#include "pages/policy.h"

#include "engine/settings.h"

#if !defined(PAGES_BATCHING)
#define PAGES_BATCHING 0
#endif

namespace engine::pages {

constinit Policy policy{.batching = PAGES_BATCHING != 0};

void read_policy() {
  constexpr const char* kSwitch[] = {"off", "on", nullptr};
  constexpr const char* kWays[] = {"1", "2", "4", nullptr};
  constexpr const char* kSets[] = {"1", "2", "4", "8", "16", "32", "64", "128", "256", nullptr};
  constexpr const char* kEvict[] = {"largest", "lru", "first", "random", nullptr};
  constexpr const char* kHash[] = {"multiply", "shift", nullptr};
  constexpr const char* kQueue[] = {"objects", "batches", nullptr};
  policy.batching = choice("BATCHIT", policy.batching ? 1 : 0, kSwitch) != 0;
  policy.ways = static_cast<uint8_t>(1u << choice("BATCHIT_WAYS", 1, kWays));
  policy.sets_log = static_cast<uint8_t>(choice("BATCHIT_SETS", policy.sets_log, kSets));
  policy.evict = static_cast<Evict>(choice("BATCHIT_EVICT", 0, kEvict));
  policy.hash = static_cast<Hash>(choice("BATCHIT_HASH", 0, kHash));
  policy.queue = static_cast<QueueOf>(choice("BATCHIT_QUEUE", 0, kQueue));
}

}  // namespace engine::pages
