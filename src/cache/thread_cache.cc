#include "cache/thread_cache.h"

namespace loft {

constinit void* no_objects[1] = {nullptr};
constinit ThreadCache empty_cache;
constinit LOFT_TLS __thread ThreadCache* self = &empty_cache;

namespace {
constinit Atomic<ThreadCache*> newest{nullptr};
}  // namespace

void add_cache(ThreadCache* block) {
  ThreadCache* before = newest.load(memory_order_relaxed);
  // Release pairs with the acquire in newest_cache, so a reader finds the block set up. The acquire
  // also covers the earlier blocks, because each exchange continues the release sequence of the
  // store that it replaces.
  do {
    block->older = before;
  } while (
      !newest.compare_exchange_weak(before, block, memory_order_release, memory_order_relaxed));
}

ThreadCache* newest_cache() { return newest.load(memory_order_acquire); }

}  // namespace loft
