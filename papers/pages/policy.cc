#include "pages/policy.h"

#include "base/atomic.h"
#include "engine/settings.h"

#if !defined(PAGES_BATCHING)
#define PAGES_BATCHING 0
#endif

namespace engine::pages {

namespace {

// Relaxed: the value says all there is. A thread that runs before the constructor has the defaults.
constinit loft::Atomic<Policy> chosen{Policy{.batching = PAGES_BATCHING != 0}};

__attribute__((constructor(103))) void choose() {
  constexpr const char* kSwitch[] = {"off", "on", nullptr};
  constexpr const char* kWays[] = {"1", "2", "4", nullptr};
  constexpr const char* kSets[] = {"1", "2", "4", "8", "16", "32", "64", "128", "256", nullptr};
  constexpr const char* kEvict[] = {"largest", "lru", "first", "random", nullptr};
  constexpr const char* kHash[] = {"multiply", "shift", nullptr};
  Policy p = chosen.load(loft::memory_order_relaxed);
  p.batching = choice("BATCHIT", p.batching ? 1 : 0, kSwitch) != 0;
  p.ways = static_cast<uint8_t>(1u << choice("BATCHIT_WAYS", 1, kWays));
  p.sets_log = static_cast<uint8_t>(choice("BATCHIT_SETS", p.sets_log, kSets));
  p.evict = static_cast<Evict>(choice("BATCHIT_EVICT", 0, kEvict));
  p.hash = static_cast<Hash>(choice("BATCHIT_HASH", 0, kHash));
  chosen.store(p, loft::memory_order_relaxed);
}

}  // namespace

Policy policy() { return chosen.load(loft::memory_order_relaxed); }

}  // namespace engine::pages
