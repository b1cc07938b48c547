// What gives back the memory of processors that do little.
#include "base/peek.h"
#include "cache/batch_cache.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "heap/heap.h"
#include "percpu/percpu.h"

namespace loft::percpu {

namespace {

size_t purge(Processor* processor, Heap::Walk walk) {
  Heap* const heap = processor->thread.heap;
  const os::Guard guard(heap->lock());
  return heap->purge(&processor->lock, walk);
}

// Returns all of the block's objects. The stacks stay closed until the next slow path on the
// processor, which shows that it is in use. Returns the bytes of holes that were purged. Under the
// lock.
size_t empty(Processor* processor, Heap::Walk walk) {
  ThreadCache* thread = &processor->thread;
  close_from_afar(processor, kAllStacks & ~processor->held);
  // If fences are refused, this and flush_all still reach the caller's own processor.
  hold(processor, kForeign);
  guest::empty(thread);
  flush_all(processor);
  medium_cache::release_all(thread);
  batch_cache::send_all(thread);
  processor->emptied = processor->held == kAllStacks;
  return purge(processor, walk);
}

void unlock_emptied(Processor* processor) {
  if (LOFT_LIKELY(processor->emptied)) {
    processor->lock.unlock();
  } else {
    leave(processor);
  }
}

// As for a thread, this changes with every call, unless another call exactly reverses it.
uint64_t activity_of(const Processor* processor) {
  uint64_t sum = 0;
  for (SizeClass stack = 0; stack < kStacks; ++stack) {
    void** const at =
        stack == kForeign ? peek(processor->stacks[stack].top()) : top(processor, stack);
    sum = (sum ^ reinterpret_cast<uint64_t>(at)) * 0x9E3779B97F4A7C15u;
  }
  const ThreadCounters& counters = processor->thread.counters;
  return sum + counters.flushes.get() + counters.batches_sent.get() +
         medium_cache::hits(&processor->thread) + processor->thread.heap->counters().refills.get();
}

bool wants_emptying(Processor* processor, unsigned ticks) {
  Heap* heap = processor->thread.heap;
  if (processor->emptied) return heap->inbox().maybe_pending() || !heap->is_purged();
  return processor->activity.look(activity_of(processor), ticks);
}

}  // namespace

bool look(unsigned ticks) {
  bool all_empty = true;
  for_each([&](Processor* processor) {
    if (!processor->lock.try_lock()) {
      all_empty = false;
      return;
    }
    const bool wanted = wants_emptying(processor, ticks);
    // A block's messages may be for a block that was visited earlier.
    if (wanted || !processor->emptied) all_empty = false;
    if (!wanted) return processor->lock.unlock();
    empty(processor, Heap::Walk::kNowAndThen);
    processor->thread.counters.emptied.add(1);
    unlock_emptied(processor);
  });
  return all_empty;
}

size_t empty_all() {
  size_t purged = 0;
  for_each([&](Processor* processor) {
    processor->lock.lock();
    purged += empty(processor, Heap::Walk::kNow);
    unlock_emptied(processor);
  });
  return purged;
}

void empty_others() {
  for_each([](Processor* processor) {
    if (!processor->lock.try_lock()) return;
    empty(processor, Heap::Walk::kNow);
    unlock_emptied(processor);
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
    .lock = lock,
    .unlock = unlock,
    .purge_idle = look,
};

}  // namespace loft::percpu
