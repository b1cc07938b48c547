#include "runtime/sleepers.h"

#include "base/peek.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "heap/registry.h"
#include "os/lock.h"
#include "runtime/lifecycle.h"

namespace loft::idle {

namespace {

size_t bytes_in_caches(const ThreadCache* thread) {
  const void* recent = nullptr;
  size_t bytes = medium_cache::held(thread, &recent);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    bytes +=
        (bins::held(thread, c, percpu::top_of(thread, c)) + guest::held(thread, c)) * class_size(c);
  }
  return bytes;
}

bool count(void* context, ThreadCache* thread) {
  Unreached& sum = *static_cast<Unreached*>(context);
  const size_t bytes = thread == this_thread() ? 0 : bytes_in_caches(thread);
  if (bytes == 0) return true;
  ++sum.threads;
  sum.bytes += bytes;
  return true;
}

}  // namespace

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
  ThreadCache* const thread = slow.thread();
  // Under owner=cpu, other threads use these caches, too.
  if (thread == nullptr || thread->processor != nullptr) return;
  thread->counters.emptied.add(1);
  guest::empty(thread);
  if (thread->heap != nullptr) {
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
