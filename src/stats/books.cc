#include "stats/books.h"

#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cache/percpu.h"
#include "heap/large.h"
#include "heap/registry.h"
#include "heaps/user_heap.h"
#include "os/limits.h"
#include "os/os.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "space/metadata.h"
#include "space/span.h"

namespace loft {

namespace {

// The counters of returned objects are read first, of all heaps; then those of objects handed out.
// A slab may change heaps meanwhile, so that its objects are counted out at one heap and back at
// another. In this order no difference is negative.
void add_what_came_back(Books& books, const Heap& heap) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const ClassCounters& counters = heap.counters().classes[c];
    ClassBooks& sum = books.classes[c];
    sum.put += counters.put.get();
    sum.received += counters.received.get();
    sum.slabs_released += counters.slabs_released.get();
  }
  books.medium_received += heap.counters().medium_received.get();
}

void add_class(ClassBooks& sum, const ClassCounters& counters, size_t page) {
  sum.slabs_created += counters.slabs_created.get();
  sum.refills += counters.refills.get();
  sum.taken += counters.taken.get();
  sum.asked += counters.asked.get();
  sum.charged += counters.charged.get() * page;
}

void add_heap(Books& books, loft_stats_t& stats, Heap& heap) {
  const HeapCounters& counters = heap.counters();
  const size_t page = os::page_size();
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    add_class(books.classes[c], counters.classes[c], page);
  }
  stats.heaps_parked += heap.abandoned() ? 1u : 0u;
  stats.dirty_bytes += counters.spare_bytes.get() + heap.mediums().dirty_pages() * kRunPage;
  stats.drains += counters.drains.get();
  stats.heaps_helped += counters.helped.get();
  stats.messages_received += counters.messages_received.get();
  stats.forwards += counters.forwards.get();
  stats.posts += counters.posts.get();
  stats.hole_bytes += counters.hole_bytes.get();
  stats.slabs_taken_over += counters.slabs_taken_over.get();
  stats.large_allocations += counters.medium_taken.get();
  stats.large_cache_hits += counters.medium_resident.get();
  stats.large_resizes += counters.medium_resized.get();
  books.medium_out += counters.medium_out.get();
  stats.locks_taken += heap.lock().acquisitions();
  stats.locks_waited_for += heap.lock().waits();
}

// Returns the bytes of medium objects in the thread's cache, and of those that it has sent.
size_t add_thread(Books& books, loft_stats_t& stats, const ThreadCache& thread) {
  const ThreadCounters& counters = thread.counters;
  size_t open[kSizeClasses] = {};
  batch_cache::count_open(&thread, open);
  if (thread.processor != nullptr) percpu::count_foreign(thread.processor, open);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    ClassBooks& sum = books.classes[c];
    const size_t sent = counters.batch_objects[c].get();
    sum.sent += sent;
    sum.flying += open[c];
    sum.held += bins::held(&thread, c, percpu::top_of(&thread, c)) + guest::held(&thread, c);
    stats.batch_objects += sent;
  }
  stats.flushes += counters.flushes.get();
  stats.checked_frees += counters.checked_frees.get();
  stats.bins_grown += counters.bins_grown.get();
  stats.bins_released += counters.bins_released.get();
  stats.batches_sent += counters.batches_sent.get();
  stats.batches_evicted += counters.batches_evicted.get();
  stats.batch_messages += counters.batch_messages.get();
  stats.posts += counters.posts.get();
  stats.turnarounds += counters.turnarounds.get();
  const size_t hits = medium_cache::hits(&thread);
  stats.large_allocations += hits;
  stats.large_cache_hits += hits;
  stats.caches_emptied += counters.emptied.get();
  const void* recent = nullptr;
  return medium_cache::held(&thread, &recent) + guest::held_in_runs(&thread) +
         counters.medium_sent.get();
}

// Called after all heaps and threads have been added.
void finish_class(ClassBooks& sum, loft_stats_t& stats, SizeClass c) {
  const size_t singly = batch_cache::sent_singly(c);
  sum.sent += singly;
  sum.out = sum.taken - sum.put - sum.received;
  // Pages may be counted up at one heap and down at another between the two reads.
  if (static_cast<ptrdiff_t>(sum.charged) < 0) sum.charged = 0;
  sum.flying += sum.sent - least(sum.sent, sum.received);
  const Geometry& shape = geometry(c);
  stats.objects_sent_singly += singly;
  stats.allocated_bytes += sum.out * shape.size;
  stats.slab_bytes += (sum.slabs_created - sum.slabs_released) * shape.granules << kGranuleLog;
  stats.slabs_created += sum.slabs_created;
  stats.slabs_released += sum.slabs_released;
  stats.refills += sum.refills;
  stats.objects_received += sum.received;
}

// A limit as reported: 0 for none.
uint64_t shown(size_t limit) { return limit == limits::kNone ? 0 : limit; }

void add_limits(loft_stats_t& stats) {
  const limits::Totals totals = limits::totals();
  stats.soft_limit_bytes = shown(limits::soft());
  stats.hard_limit_bytes = shown(limits::hard());
  stats.group_limit_bytes = shown(totals.group_limit);
  stats.group_used_bytes = totals.group_used;
  stats.soft_limit_hits = totals.soft_hits;
  stats.hard_limit_refusals = totals.hard_refusals;
}

}  // namespace

void read_books(Books& books, loft_stats_t& stats) {
  books = Books{};
  stats.heaps = registry::count();
  for (unsigned id = 1; id <= stats.heaps; ++id) add_what_came_back(books, *registry::at(id));
  // The second count includes heaps made meanwhile. Acquire fence: no figure read below is older
  // than those read above.
  thread_fence(memory_order_acquire);
  stats.heaps = registry::count();
  for (unsigned id = 1; id <= stats.heaps; ++id) add_heap(books, stats, *registry::at(id));
  stats.adoptions = registry::adoptions();

  size_t kept = batch_cache::medium_sent_singly() - books.medium_received;
  for (const ThreadCache* t = newest_cache(); t != nullptr; t = t->older) {
    kept += add_thread(books, stats, *t);
  }
  for (SizeClass c = 0; c < kSizeClasses; ++c) finish_class(books.classes[c], stats, c);
  const lifecycle::ThreadTotals threads = lifecycle::totals();
  stats.threads_attached = threads.attached;
  stats.threads_started = threads.started;
  stats.threads_exited = threads.exited;

  const percpu::ProcessorTotals cores = percpu::totals();
  stats.cores = cores.blocks;
  stats.core_fences = cores.fences;

  const large::LargeTotals larges = large::totals();
  // Below zero if an object was counted out at one heap and back at another between the two reads.
  const size_t mediums = static_cast<ptrdiff_t>(books.medium_out) < 0 ? 0 : books.medium_out;
  const size_t large_bytes = larges.bytes + mediums;
  stats.large_bytes = large_bytes - least(mediums, kept);
  stats.large_allocations += larges.allocations;
  stats.large_cache_hits += larges.cache_hits;
  stats.large_resizes += larges.resizes;
  stats.large_moves = larges.moves;
  stats.allocated_bytes += large_bytes;

  const span::SpanTotals spans = span::totals();
  stats.dirty_bytes += spans.dirty;
  stats.purged_bytes = spans.clean;
  stats.spans_acquired = spans.acquired;
  stats.spans_released = spans.released;
  stats.background_ticks = span::ticks();
  stats.background_threads = background::has_thread() ? 1 : 0;
  stats.metadata_bytes = metadata::used_bytes();
  const UserHeap::Sums users = UserHeap::sums_of_all();
  stats.user_heaps = users.heaps;
  stats.user_heap_bytes = users.live_bytes;
  stats.committed_bytes = span::counted() + metadata::touched_bytes();
  stats.locks_taken += threads.locks + cores.locks + spans.locks + metadata::locks() + users.locks;
  stats.locks_waited_for +=
      threads.waits + cores.waits + spans.waits + metadata::waits() + users.waits;
  books.dirty_bytes = spans.dirty;
  books.refused_bytes = spans.refused;

  const os::Calls calls = os::calls();
  stats.os_maps = calls.maps;
  stats.os_purges = calls.discards;
  add_limits(stats);
}

}  // namespace loft
