// Frees unused memory, for an allocation that found none and for a purge by the program.
#include "malloc/ordinary.h"

#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cache/percpu.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "os/lock.h"
#include "runtime/lifecycle.h"
#include "space/span.h"

namespace loft {

namespace {

// Empties the thread's medium cache and bins, and rests its heap. Returns the bytes of holes
// purged.
size_t purge_caches(ThreadCache* thread) {
  guest::empty(thread);
  medium_cache::release_all(thread);
  size_t purged = 0;
  if (thread->heap != nullptr) {
    thread->processor != nullptr ? percpu::flush_all(thread->processor) : bins::flush_all(thread);
    const os::Guard guard(thread->heap->lock());
    purged = thread->heap->purge(nullptr, Heap::Walk::kNow);
  }
  return purged;
}

// What to purge in a heap whose thread runs. kHoles walks all its slabs: only for a purge by the
// program.
enum class AtWork : uint8_t { kSpares, kHoles };

// Visits all heaps once. *passed_on: messages that they forwarded meanwhile.
size_t visit_others(AtWork at_work, size_t* passed_on) {
  size_t purged = 0;
  for (unsigned id = 1; id <= registry::count(); ++id) {
    Heap* heap = registry::at(id);
    const size_t before = heap->counters().forwards.get();
    const bool common = heap == registry::common_heap();
    if (heap->abandoned() || common) {
      // Waits. A round may hold the lock; it releases it within a step once a thread sleeps on it.
      const os::Guard guard(heap->lock());
      if (heap->abandoned() || common) purged += heap->purge(nullptr, Heap::Walk::kNow);
    } else if (heap->lock().try_lock()) {
      if (at_work == AtWork::kHoles) purged += heap->purge(nullptr, Heap::Walk::kAtWorkNow);
      if (heap->inbox().maybe_pending()) heap->drain_all();
      heap->give_up_spares();
      heap->lock().unlock();
    }
    *passed_on += heap->counters().forwards.get() - before;
  }
  return purged;
}

// The same for all other memory. Purges the program's own heaps, and rests abandoned heaps and the
// common one. Heaps of running threads are drained and lose their spare slabs; with kHoles their
// holes are purged, too.
size_t purge_others(AtWork at_work) {
  size_t purged = guest::purge();
  // A heap may forward a message to one that was visited before it. If another heap takes the slab
  // over meanwhile, the message's route starts again: hence twice kMaxHops.
  for (unsigned round = 0; round < 2 * kMaxHops; ++round) {
    size_t passed_on = 0;
    purged += visit_others(round == 0 ? at_work : AtWork::kSpares, &passed_on);
    if (passed_on == 0) break;
  }
  return purged;
}

// Rests the thread's own heap again, for messages that have arrived meanwhile.
size_t purge_own_heap(ThreadCache* thread) {
  if (thread == nullptr || thread->heap == nullptr) return 0;
  const os::Guard guard(thread->heap->lock());
  return thread->heap->purge(nullptr, Heap::Walk::kNow);
}

}  // namespace

void reclaim(ThreadCache* thread) {
  if (thread != nullptr) {
    purge_caches(thread);
    // Moves the objects in the processor's foreign stack into batches.
    if (thread->processor != nullptr) percpu::hold(thread->processor, kForeign);
    batch_cache::send_all(thread);
    if (percpu::in_use()) percpu::empty_others();
  }
  purge_others(AtWork::kSpares);
  purge_own_heap(thread);
}

LOFT_COLD void reclaim() {
  const lifecycle::SlowPath slow;
  reclaim(slow.thread());
}

size_t purge_everything(size_t* unreached_threads, size_t* unreached_bytes) {
  const idle::Unreached unreached = idle::unreached();
  *unreached_threads = unreached.threads;
  *unreached_bytes = unreached.bytes;
  return trim(0);
}

size_t trim(size_t pad) {
  size_t purged = percpu::in_use() ? percpu::empty_all() : 0;
  const lifecycle::SlowPath slow;
  ThreadCache* thread = slow.thread();
  if (thread != nullptr) {
    purged += purge_caches(thread);
    batch_cache::send_all(thread);
  }
  purged += purge_others(AtWork::kHoles);
  purged += purge_own_heap(thread);
  return purged + span::purge(pad);
}

}  // namespace loft
