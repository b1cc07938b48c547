#include "observe/stats.h"

#include "cache/lifecycle.h"
#include "heap/registry.h"
#include "heap/user_heap.h"
#include "os/os.h"
#include "space/large.h"
#include "space/limits.h"
#include "space/metadata.h"
#include "space/span.h"

namespace loft {

namespace {

void add_heap(loft_stats_t& stats, Heap& heap) {
  const HeapCounters& counters = heap.counters();
  stats.heaps_parked += heap.parked() ? 1u : 0u;
  stats.slab_bytes += counters.slab_bytes.get();
  stats.dirty_bytes += counters.spare_bytes.get();
  stats.allocated_bytes += counters.allocated_bytes.get();
  stats.slabs_created += counters.slabs_created.get();
  stats.slabs_released += counters.slabs_released.get();
  stats.refills += counters.refills.get();
  stats.drains += counters.drains.get();
  stats.messages_received += counters.messages_received.get();
  stats.objects_received += counters.objects_received.get();
  stats.forwards += counters.forwards.get();
  stats.posts += counters.posts.get();
  stats.locks_taken += heap.lock().acquisitions();
}

// A limit as it is shown: 0 for none.
uint64_t shown(size_t limit) { return limit == limits::kNone ? 0 : limit; }

void add_limits(loft_stats_t& stats) {
  const limits::Totals totals = limits::totals();
  stats.soft_limit_bytes = shown(limits::soft());
  stats.hard_limit_bytes = shown(limits::hard());
  stats.group_limit_bytes = shown(totals.group_limit);
  stats.group_used_bytes = totals.group_used;
  stats.group_processors = shown(totals.processors);
  stats.soft_limit_hits = totals.soft_hits;
  stats.hard_limit_refusals = totals.hard_refusals;
}

}  // namespace

void collect(loft_stats_t& stats) {
  const uint64_t struct_size = stats.struct_size;
  stats = loft_stats_t{};
  stats.struct_size = struct_size;

  stats.heaps = registry::count();
  for (unsigned id = 1; id <= stats.heaps; ++id) add_heap(stats, *registry::at(id));
  stats.adoptions = registry::adoptions();

  const lifecycle::Totals threads = lifecycle::totals();
  stats.threads_attached = threads.attached;
  stats.threads_started = threads.started;
  stats.threads_exited = threads.exited;
  stats.flushes = threads.flushes;
  stats.batches_sent = threads.batches_sent;
  stats.batch_objects = threads.batch_objects;
  stats.batch_messages = threads.batch_messages;
  stats.posts += threads.posts;
  stats.turnarounds = threads.turnarounds;

  const large::Totals larges = large::totals();
  stats.large_bytes = larges.bytes - threads.large_kept_bytes;
  stats.large_allocations = larges.allocations + threads.large_hits;
  stats.large_cache_hits = larges.cache_hits + threads.large_hits;
  stats.allocated_bytes += larges.bytes;

  const span::Totals spans = span::totals();
  stats.dirty_bytes += spans.dirty;
  stats.purged_bytes = spans.clean;
  stats.metadata_bytes = metadata::used_bytes();
  const UserHeap::Totals users = UserHeap::totals_of_all();
  stats.user_heaps = users.heaps;
  stats.user_heap_bytes = users.live_bytes;
  stats.committed_bytes = stats.slab_bytes + larges.bytes + users.window_bytes + stats.dirty_bytes +
                          stats.metadata_bytes;
  stats.locks_taken += threads.locks + spans.locks + metadata::locks() + users.locks;

  const os::Calls calls = os::calls();
  stats.os_maps = calls.maps;
  stats.os_purges = calls.discards;
  add_limits(stats);
}

}  // namespace loft
