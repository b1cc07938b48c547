#include "runtime/youth.h"

#include "base/look.h"
#include "base/options.h"
#include "cache/batch_cache.h"
#include "cache/object.h"
#include "heap/registry.h"
#include "os/lock.h"
#include "slab/slab.h"

namespace loft::youth {

namespace {

// The smallest class of whole cache lines with room for an object of class `c`.
constexpr SizeClass whole_lines(SizeClass c) {
  constexpr SizeClass kClassesOfALine = kCacheLine / kMinObject;
  return c < kLinearClasses ? c | (kClassesOfALine - 1) : c;
}
constexpr bool whole_lines_hold() {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    if (!fills_cache_lines(whole_lines(c)) || whole_lines(c) < c) return false;
  }
  return true;
}
static_assert(whole_lines_hold());

// Slow paths of the calling thread so far, until it grows up. One that a signal handler has come
// between may count twice.
constinit LOFT_TLS __thread uint32_t calls = 0;

bool may_be_young() {
  return newest_cache() != nullptr && get(options.hardened) == kHardenedOff &&
         !registry::all_share();
}

}  // namespace

constinit LOFT_TLS __thread size_t net_bytes = 0;
constinit Atomic<bool> block_at_hand{false};

LOFT_NOINLINE bool lasts() {
  return calls < kCalls && !block_at_hand.load(memory_order_relaxed) && may_be_young();
}

void count_call(const os::Lock& lock) {
  constexpr uint32_t kCallsOfAWait = kCalls / 2;
  calls += lock.is_held() ? kCallsOfAWait : 1;
}

size_t end() {
  calls = kMostCalls;
  const size_t bytes = net_bytes;
  net_bytes = 0;
  return bytes;
}

void* take(ObjectRequest request, bool zero) {
  Heap* const heap = registry::shared_heap();
  if (LOFT_UNLIKELY(heap == nullptr)) return nullptr;
  request.size_class = static_cast<uint8_t>(whole_lines(request.size_class));
  count_call(heap->lock());
  // A thread that ends soon never comes to its own look: so each sixteenth call of them all is
  // followed by one.
  if (LOFT_UNLIKELY(heap->counters().refills.get() % kSlowPathsPerLook == 0)) look_soon();
  void* const object = zero ? bins::take_zero(heap, request) : bins::take_one(heap, request);
  if (LOFT_LIKELY(object != nullptr)) net_bytes += class_size(request.size_class);
  return object;
}

LOFT_NOINLINE bool put_slow(void* p, Entry entry) {
  Heap* const heap = registry::at(entry.owner());
  const uint32_t most = registry::is_shared(heap) ? kMostCalls : kCalls;
  if (calls >= most || !may_be_young()) return false;
  const SizeClass c = class_of_bin(entry.bin());
  count_call(heap->lock());
  if (!bins::put_one(heap, c, p)) {
    const Entry now = pagemap.of(p);
    // Freed twice, by another thread at the same time, whose free gave the slab back.
    if (LOFT_UNLIKELY(!now.is_slab())) slab::report_without_slab(p);
    batch_cache::send_single(p, now);
  }
  net_bytes -= class_size(c);
  return true;
}

}  // namespace loft::youth
