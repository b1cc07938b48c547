#include "cache/pool.h"

namespace loft::pool {

namespace {

// What all caches were counted with. Relaxed: a sum by itself, which orders nothing. Modulo 2^64.
constinit Atomic<size_t> total{0};

size_t held(const ThreadCache* thread) {
  return thread->capacity_bytes + thread->counters.medium_kept_bytes.get();
}

// Returns the sum.
size_t count(ThreadCache* thread, size_t bytes) {
  const size_t more = bytes - thread->counted_bytes;
  thread->counted_bytes = bytes;
  return total.fetch_add(more, memory_order_relaxed) + more;
}

}  // namespace

bool claim(ThreadCache* thread, size_t more) {
  const size_t before = held(thread);
  // What was kept and taken in turn is counted all the time.
  if (before + more <= thread->counted_bytes) return true;
  if (count(thread, before + more) <= limits::scarce_cached()) return true;
  count(thread, before);
  return false;
}

void give_back(ThreadCache* thread) {
  if (thread->counted_bytes > held(thread)) count(thread, held(thread));
}

void forget(ThreadCache* thread) {
  if (thread->counted_bytes != 0) count(thread, 0);
}

void forget_all() {
  for (ThreadCache* thread = newest_cache(); thread != nullptr; thread = thread->older) {
    thread->counted_bytes = 0;
  }
  total.store(0, memory_order_relaxed);
}

}  // namespace loft::pool
