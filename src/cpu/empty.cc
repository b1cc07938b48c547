// What gives back the memory of processors that do little.
#include "base/peek.h"
#include "cache/batch_cache.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cpu/core.h"
#include "heap/heap.h"

namespace loft::core {

namespace {

size_t purge(Core* core, Heap::Walk walk) {
  Heap* const heap = core->thread.heap;
  const os::Guard guard(heap->lock());
  return heap->purge(&core->lock, walk);
}

// Returns all of the block's objects. The stacks stay closed until the next slow path on the
// processor, which shows that it is in use. Returns the bytes of holes that were purged. Under the
// lock.
size_t empty(Core* core, Heap::Walk walk) {
  Thread* thread = &core->thread;
  close_from_afar(core, kAllStacks & ~core->held);
  // If fences are refused, this and flush_all still reach the caller's own processor.
  hold(core, kForeign);
  guest::empty(thread);
  flush_all(core);
  medium_cache::release_all(thread);
  batch_cache::send_all(thread);
  core->emptied = core->held == kAllStacks;
  return purge(core, walk);
}

void unlock_emptied(Core* core) {
  if (LOFT_LIKELY(core->emptied)) {
    core->lock.unlock();
  } else {
    leave(core);
  }
}

// As for a thread, this changes with every call, unless another call exactly reverses it.
uint64_t activity_of(const Core* core) {
  uint64_t sum = 0;
  for (SizeClass stack = 0; stack < kStacks; ++stack) {
    void** const at = stack == kForeign ? peek(core->stacks[stack].top()) : top(core, stack);
    sum = (sum ^ reinterpret_cast<uint64_t>(at)) * 0x9E3779B97F4A7C15u;
  }
  const ThreadCounters& counters = core->thread.counters;
  return sum + counters.flushes.get() + counters.batches_sent.get() +
         medium_cache::hits(&core->thread) + core->thread.heap->counters().refills.get();
}

bool wants_emptying(Core* core, unsigned ticks) {
  Heap* heap = core->thread.heap;
  if (core->emptied) return heap->inbox().maybe_pending() || !heap->is_purged();
  return core->activity.look(activity_of(core), ticks);
}

}  // namespace

bool look(unsigned ticks) {
  bool all_empty = true;
  for_each([&](Core* core) {
    if (!core->lock.try_lock()) {
      all_empty = false;
      return;
    }
    const bool wanted = wants_emptying(core, ticks);
    // A block's messages may be for a block that was visited earlier.
    if (wanted || !core->emptied) all_empty = false;
    if (!wanted) return core->lock.unlock();
    empty(core, Heap::Walk::kNowAndThen);
    core->thread.counters.emptied.add(1);
    unlock_emptied(core);
  });
  return all_empty;
}

size_t empty_all() {
  size_t purged = 0;
  for_each([&](Core* core) {
    core->lock.lock();
    purged += empty(core, Heap::Walk::kNow);
    unlock_emptied(core);
  });
  return purged;
}

void empty_others() {
  for_each([](Core* core) {
    if (!core->lock.try_lock()) return;
    empty(core, Heap::Walk::kNow);
    unlock_emptied(core);
  });
}

namespace {

void lock(LockStep step) {
  if (step == LockStep::kBeforeBlocks) prepare_fork();
}

void unlock(LockStep step, bool child) {
  if (step == LockStep::kBeforeBlocks) finish_fork(child);
}

}  // namespace

constinit const Guest guest = {
    .join = nullptr,
    .review = nullptr,
    .empty = nullptr,
    .inherit = nullptr,
    .begin_child = nullptr,
    .held = nullptr,
    .held_in_runs = nullptr,
    .visit_held = nullptr,
    .lock = lock,
    .unlock = unlock,
    .look = nullptr,
    .begin_looks = nullptr,
    .purge_idle = look,
    .purge = nullptr,
};

}  // namespace loft::core
