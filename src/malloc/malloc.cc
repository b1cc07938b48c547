// The slow paths of malloc.
#include "cache/bins.h"
#include "cache/medium_cache.h"
#include "cache/percpu.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/limits.h"
#include "os/os.h"
#include "os/restartable.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "runtime/youth.h"
#include "space/span.h"

namespace loft {

namespace {

ObjectRequest request_of(size_t size, Maker maker = Maker::kMalloc) {
  return request_of(class_of(most<size_t>(size, 1)), size, maker);
}

// Frees unused memory, and tries again.
LOFT_COLD void* reclaim_and_refill(ObjectRequest request) {
  void* object = nullptr;
  {
    const lifecycle::SlowPath slow;
    ThreadCache* const thread = slow.thread();
    if (lifecycle::give_heap(thread)) {
      reclaim(thread);
      object = policy_of(thread).refill(thread, request);
    } else if (registry::shared_heap() != nullptr) {
      reclaim(nullptr);
      object = policy_of(&empty_cache).refill(&empty_cache, request);
    }
  }
  if (object != nullptr) return object;
  return refuse(size_t{geometry(request.size_class).granules} << kGranuleLog);
}

// Not inlined: its callers would save a register for it before they pop.
LOFT_NOINLINE void* allocate_class(ObjectRequest request) {
  ThreadCache* const thread = this_thread();
  void* const object = policy_of(thread).refill(thread, request);
  return LOFT_LIKELY(object != nullptr) ? object : reclaim_and_refill(request);
}

// As allocate's fast path: pops from the bin that a table of the block names for `index`. nullptr
// if the bin is empty. Under owner=cpu, the table is the stand-in's, and the bin the processor's.
template <auto kTable>
LOFT_ALWAYS_INLINE void* pop(size_t index) {
  if (LOFT_UNLIKELY(percpu::in_use())) {
    return os::pop(load_entry((this_thread()->*kTable)[index]));
  }
  ThreadCache* const thread = this_thread();
  Bin* bin = thread->bin_at(load_entry((thread->*kTable)[index]));
  void** top = bin->top();
  void* object = *top;
  if (LOFT_UNLIKELY(object == nullptr)) return nullptr;
  bin->pop_from(top);
  LOFT_FORGET(object);  // or it lies in another register than what is returned
  if (object == nullptr) __builtin_unreachable();
  return object;
}

// From the bin of a size beyond allocate's table.
LOFT_ALWAYS_INLINE void* pop_step(size_t size) {
  size_t last = size - 1;
  // Without this, the compiler keeps it for the slow path, in one instruction more.
  LOFT_FORGET(last);
  return pop<&ThreadCache::bin_of_step>(last / kStepBytes);
}

void* pop_or_refill(ObjectRequest request) {
  const size_t size = class_size(request.size_class);
  void* popped = size <= kTableMax ? pop<&ThreadCache::bin_of>(size) : pop_step(size);
  return LOFT_LIKELY(popped != nullptr) ? popped : allocate_class(request);
}

// From this size on, calloc looks for an object on pages without memory. It needs no clearing, and
// the program may never touch most of it. A smaller object is cleared faster than it is found.
constexpr size_t kZeroMin = 4096 + 1;

// size > kSmallMax
template <Maker kMaker>
LOFT_ALWAYS_INLINE void* allocate_long(size_t size) {
  if (LOFT_LIKELY(size <= kMediumMax)) {
    void* recent = medium_cache::take_recent(this_thread(), size);
    if (LOFT_LIKELY(recent != nullptr)) return recent;
    if (LOFT_LIKELY(pagemap.medium_page.get() != 0)) return allocate_medium(size);
  }
  return policy().allocate_long(size, 1, false, kMaker);
}

LOFT_NOINLINE void* allocate_long_aligned(size_t size, size_t alignment, Maker maker) {
  if (alignment <= pagemap.medium_page.get()) {
    void* recent = medium_cache::take_recent(this_thread(), size);
    if (LOFT_LIKELY(recent != nullptr)) return recent;
  }
  return policy().allocate_long(size, alignment, false, maker);
}

}  // namespace

void* take_zero_ordinary(ObjectRequest request) {
  background::look_after();
  if (youth::is_young()) return youth::take(request, true);
  const lifecycle::SlowPath slow;
  ThreadCache* thread = slow.thread();
  if (thread == nullptr || thread->heap == nullptr) return nullptr;
  if (!percpu::own(thread, request.size_class)) return nullptr;
  if (*thread->bins[request.size_class].top() != nullptr) return nullptr;
  return bins::take_zero(thread->heap, request);
}

LOFT_COLD void* refuse(size_t bytes) {
  limits::note_refusal(span::committed(), bytes);
  policy().on_refused(bytes);
  return os::out_of_memory();
}

template <Maker kMaker>
void* allocate_from_empty(size_t size) {
  return allocate_class(request_of(size, kMaker));
}

template <Maker kMaker>
void* allocate_beyond_table(size_t size) {
  if (LOFT_UNLIKELY(size > kSmallMax)) return allocate_long<kMaker>(size);
  void* popped = pop_step(size);
  return LOFT_LIKELY(popped != nullptr) ? popped : allocate_class(request_of(size, kMaker));
}

template void* allocate_from_empty<Maker::kMalloc>(size_t size);
template void* allocate_from_empty<Maker::kNew>(size_t size);
template void* allocate_from_empty<Maker::kNewArray>(size_t size);
template void* allocate_beyond_table<Maker::kMalloc>(size_t size);
template void* allocate_beyond_table<Maker::kNew>(size_t size);
template void* allocate_beyond_table<Maker::kNewArray>(size_t size);

void* allocate_zeroed(size_t size) {
  if (LOFT_UNLIKELY(size > kSmallMax)) {
    return policy().allocate_long(size, 1, true, Maker::kMalloc);
  }
  if (size >= kZeroMin) {
    void* popped = pop_step(size);
    if (popped != nullptr) return __builtin_memset(popped, 0, size);
    if (void* zero = policy().take_zero(request_of(size)); zero != nullptr) return zero;
  }
  void* object = allocate(size);
  if (LOFT_LIKELY(object != nullptr)) __builtin_memset(object, 0, size);
  return object;
}

namespace {

bool is_for_slab(size_t alignment, size_t size) {
  return size <= kSmallMax && alignment <= kSmallMax;
}

// Objects lie at multiples of their size from an aligned base. So any class whose size is a
// multiple of the alignment will do. The smallest class for a size that is such a multiple has that
// property: above kLinearLog, class sizes are the multiples of a power of two, which divides the
// alignment or is divided by it.
ObjectRequest aligned_request(size_t alignment, size_t size, Maker maker) {
  alignment = most(alignment, kAlignment);
  const SizeClass c = class_of(round_up(most<size_t>(size, 1), alignment));
  return {static_cast<uint8_t>(c), static_cast<uint8_t>(highest_bit(alignment)), maker,
          static_cast<uint32_t>(size)};
}

}  // namespace

void* allocate_aligned(size_t alignment, size_t size, Maker maker) {
  if (alignment <= kAlignment && maker == Maker::kMalloc) return allocate(size);
  if (is_for_slab(alignment, size)) return pop_or_refill(aligned_request(alignment, size, maker));
  return allocate_long_aligned(most<size_t>(size, 1), alignment, maker);
}

void* allocate_aligned_zeroed(size_t alignment, size_t size) {
  if (alignment <= kAlignment) return allocate_zeroed(size);
  if (!is_for_slab(alignment, size)) {
    return policy().allocate_long(most<size_t>(size, 1), alignment, true, Maker::kMalloc);
  }
  const ObjectRequest request = aligned_request(alignment, size, Maker::kMalloc);
  if (size >= kZeroMin) {
    void* const popped = pop_step(class_size(request.size_class));
    if (popped != nullptr) return __builtin_memset(popped, 0, size);
    if (void* const zero = policy().take_zero(request); zero != nullptr) return zero;
  }
  void* const object = pop_or_refill(request);
  if (LOFT_LIKELY(object != nullptr)) __builtin_memset(object, 0, size);
  return object;
}

}  // namespace loft
