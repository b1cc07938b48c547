#include "thread/idle.h"

#include "base/peek.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/medium_cache.h"
#include "hard/quarantine.h"
#include "heap/registry.h"
#include "meter/meter.h"
#include "os/lock.h"
#include "room/magazines.h"
#include "thread/lifecycle.h"

namespace loft::idle {

namespace {

// nullptr if it has none. The registry's pointer, not the thread's: whoever reads a count that has
// the heap sees it constructed.
Heap* heap_of(const Thread* thread) { return registry::find(peek(thread->owner)); }

// How often the thread met its heap. Calls that its caches serve do not count: they use nothing
// that is free in the heap. A hint, read while the thread runs: if it misses a change, a heap rests
// too early.
size_t meetings_of(const Thread* thread) {
  const Heap* const heap = heap_of(thread);
  const size_t refills = heap == nullptr ? 0 : heap->counters().refills.get();
  return refills + thread->counters.flushes.get() + thread->counters.room_cleared.get();
}

struct Found {
  Heap* heap = nullptr;  // of an idle thread
  bool all_idle = true;
};

// Called under the list's lock. Heaps are never destroyed, so the heap may have another owner by
// the time that it rests.
bool choose(void* context, Thread* thread) {
  Found& found = *static_cast<Found*>(context);
  if (!thread->idle.look(meetings_of(thread))) {
    found.all_idle = false;
    return true;
  }
  Heap* const heap = heap_of(thread);
  if (heap == nullptr || heap == registry::common_heap()) return true;
  if (heap->is_purged() && !heap->inbox().maybe_pending()) return true;
  found.heap = heap;
  found.all_idle = false;
  return false;
}

size_t bytes_in_caches(const Thread* thread) {
  const void* recent = nullptr;
  size_t bytes = medium_cache::held(thread, &recent);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    bytes += (bins::held(thread, c, core::top_of(thread, c)) + hard::held(thread, c) +
              magazines::held(thread, c).all()) *
             class_size(c);
  }
  return bytes;
}

bool count(void* context, Thread* thread) {
  Unreached& sum = *static_cast<Unreached*>(context);
  const size_t bytes = thread == this_thread() ? 0 : bytes_in_caches(thread);
  if (bytes == 0) return true;
  ++sum.threads;
  sum.bytes += bytes;
  return true;
}

}  // namespace

bool purge_common() {
  Heap* common = registry::common_heap();
  if (common == nullptr) return true;
  if (common->is_purged() && !common->inbox().maybe_pending()) return true;
  if (!common->lock().try_lock()) return false;
  // Guarded by the heap's lock.
  static constinit Idle idle{};
  // Medium objects do not count: programs that do little else come to the heap for these.
  const HeapCounters& counters = common->counters();
  const size_t refills = counters.refills.get() - counters.medium_taken.get();
  if (idle.look(refills)) common->purge(nullptr, Heap::Walk::kNowAndThen);
  common->lock().unlock();
  return false;
}

bool look() {
  // Another thread is visiting. Reports that there is more to look at.
  if (!lifecycle::round().try_lock()) return false;
  bool all_idle = true;
  lifecycle::restart_visits();
  for (bool round_ends = false; !round_ends;) {
    Found found;
    round_ends = lifecycle::visit_threads(choose, &found);
    all_idle = all_idle && found.all_idle;
    // Does not wait: the heap's thread may hold the lock inside a call, for any length of time.
    if (found.heap != nullptr && found.heap->lock().try_lock()) {
      found.heap->purge(nullptr, Heap::Walk::kAtWork);
      found.heap->lock().unlock();
    }
    // A fork or a purge waits. The next look visits the remaining threads.
    if (LOFT_UNLIKELY(lifecycle::round().has_sleepers())) {
      all_idle = false;
      break;
    }
  }
  lifecycle::round().unlock();
  return all_idle;
}

Unreached unreached() {
  Unreached sum = {};
  const os::Guard guard(lifecycle::round());
  lifecycle::restart_visits();
  while (!lifecycle::visit_threads(count, &sum)) {
  }
  return sum;
}

void begin_wait() {
  const lifecycle::SlowPath slow;
  Thread* const thread = slow.thread();
  // Under owner=core, other threads use these caches, too.
  if (thread == nullptr || thread->core != nullptr) return;
  thread->counters.emptied.add(1);
  hard::empty(thread);
  if (thread->heap != nullptr) {
    magazines::empty(thread);
    meter::empty(thread);
    bins::flush_all(thread);
    bins::reset(thread, true);
  }
  medium_cache::release_all(thread);
  batch_cache::send_all(thread);
  if (thread->heap == nullptr || thread->heap == registry::common_heap()) return;
  const os::Guard guard(thread->heap->lock());
  thread->heap->purge(nullptr, Heap::Walk::kNowAndThen);
}

}  // namespace loft::idle
