#include "stats/net.h"

#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cache/percpu.h"
#include "heap/registry.h"
#include "runtime/youth.h"

namespace loft {

namespace {

size_t held_by(const ThreadCache* thread) {
  const void* recent = nullptr;
  size_t bytes = medium_cache::held(thread, &recent) + guest::held_in_runs(thread);
  size_t open[kSizeClasses] = {};
  batch_cache::count_open(thread, open);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const size_t objects =
        open[c] + bins::held(thread, c, thread->bins[c].top()) + guest::held(thread, c);
    bytes += objects * class_size(c);
  }
  return bytes;
}

}  // namespace

bool read_net_bytes(ptrdiff_t* bytes) {
  if (percpu::in_use() || registry::all_share()) return false;
  const ThreadCache* const thread = this_thread();
  const size_t of_slabs = thread->heap == nullptr ? 0 : thread->heap->counters().net_bytes.get();
  const size_t sum = of_slabs + thread->counters.net_bytes.get() - held_by(thread);
  *bytes = static_cast<ptrdiff_t>(thread == &empty_cache ? youth::net_bytes : sum);
  return true;
}

}  // namespace loft
