#include "cache/thread.h"

namespace loft {

constinit void* no_objects[1] = {nullptr};
constinit Thread stand_in;
constinit LOFT_TLS __thread Thread* self = &stand_in;

namespace {
constinit Atomic<Thread*> newest{nullptr};
}  // namespace

void add_block(Thread* block) {
  Thread* before = newest.load(memory_order_relaxed);
  // Release pairs with the acquire in newest_block, so a reader finds the block set up. The acquire
  // also covers the earlier blocks, because each exchange continues the release sequence of the
  // store that it replaces.
  do {
    block->older = before;
  } while (
      !newest.compare_exchange_weak(before, block, memory_order_release, memory_order_relaxed));
}

Thread* newest_block() { return newest.load(memory_order_acquire); }

}  // namespace loft
