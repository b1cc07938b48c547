#include "malloc/ordinary.h"

#include "base/sealed.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cache/object.h"
#include "cache/percpu.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "os/limits.h"
#include "os/restartable.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "runtime/youth.h"

namespace loft {

namespace {

// Every kLookEvery refills, a thread looks at all that is due now and then: one counter will do.
constexpr uint8_t kLookEvery = 8;
// Refills between two reviews of a bin, unless memory is tight: then every look reviews one. A
// round of all bins takes kSizeClasses times that.
constexpr uint8_t kReviewEvery = 64;

bool is_look_due(ThreadCache* thread) { return LOFT_UNLIKELY(++thread->refills % kLookEvery == 0); }

// Reviews one bin per call, in turn.
void review_next_bin(ThreadCache* thread, SizeClass refilled) {
  const SizeClass c = thread->review_next;
  thread->review_next = static_cast<uint8_t>((c + 1) % kSizeClasses);
  if (c == 0) {
    depot::release_spares(thread);
    guest::review(thread);
  }
  if (!percpu::own(thread, c)) return;
  bins::review(thread, c, c == refilled);
}

// A look reviews the next bin if it is time, or if the heap has made slabs of new memory since the
// last look: each object in an idle bin may keep a whole slab, whose memory the heap could use
// instead. Only one bin, because it may have hundreds of KiB of objects to give back.
void review_if_due(ThreadCache* thread, SizeClass refilled) {
  const auto fresh = static_cast<uint32_t>(thread->heap->counters().fresh_slabs.get());
  const bool grown = thread->fresh_seen != fresh;
  thread->fresh_seen = fresh;
  const bool in_turn = limits::tight() || thread->refills % kReviewEvery == 0;
  if (in_turn) medium_cache::review(thread);
  if (in_turn || grown) review_next_bin(thread, refilled);
}

// nullptr if the bin is empty.
void* pop(ThreadCache* thread, SizeClass size_class) {
  Bin& bin = thread->bins[size_class];
  return *bin.top() == nullptr ? nullptr : bin.pop();
}

LOFT_NOINLINE void* look_and_refill(ThreadCache* thread, ObjectRequest request) {
  background::look();
  review_if_due(thread, request.size_class);
  // The review may have moved objects into the bin that a profile, now ended, kept beside it.
  if (void* const popped = pop(thread, request.size_class); popped != nullptr) return popped;
  return bins::refill(thread, request);
}

void* refill_from_own(ThreadCache* thread, ObjectRequest request) {
  if (is_look_due(thread)) return look_and_refill(thread, request);
  return bins::refill(thread, request);
}

// `thread` is a processor's block, whose lock the caller holds.
void* refill_from_processors(ThreadCache* thread, ObjectRequest request) {
  if (!percpu::hold(thread->processor, request.size_class))
    return bins::take_one(thread->heap, request);
  // Another thread may have filled the bin while this one waited for the lock.
  if (void* popped = pop(thread, request.size_class); popped != nullptr) {
    guest::review(thread);
    return popped;
  }
  if (is_look_due(thread)) review_if_due(thread, request.size_class);
  return bins::refill(thread, request);
}

// For the first malloc of a thread, each of one that has no block, and all under owner=cpu.
void* refill_without_heap(ThreadCache*, ObjectRequest request) {
  background::look_after();
  if (youth::is_young()) return youth::take(request, false);
  const lifecycle::SlowPath slow;
  ThreadCache* const thread = slow.thread();
  if (!lifecycle::give_heap(thread)) {
    Heap* const heap = registry::shared_heap();
    return heap != nullptr ? bins::take_one(heap, request) : nullptr;
  }
  // The system, asked to tell of the thread's end, may have called malloc and so filled the bin.
  if (thread->processor == nullptr) {
    if (void* popped = pop(thread, request.size_class); popped != nullptr) return popped;
  }
  return core_policy_of(thread).refill(thread, request);
}

bool push_to_processors(ThreadCache* thread, SizeClass size_class, void* p) {
  return percpu::hold(thread->processor, size_class) && bins::push_slow(thread, size_class, p);
}

bool push_without_heap(ThreadCache*, SizeClass, void*) { return false; }

void free_from_processor(ThreadCache* thread, void* p, Entry entry) {
  percpu::free_foreign(thread->processor, p, entry);
}

void* allocate_long(size_t size, size_t alignment, bool zeroed, Maker) {
  return allocate_large(size, alignment, zeroed);
}

void free_as(void* p, Freed) { policy().free(p); }

size_t size_in(const void*, size_t bytes) { return bytes; }

bool is_object_at(const void* p) { return object_of(p).start == p; }

void on_refused(size_t) {}

#define LOFT_FOR_ALL_MODES                                                                       \
  take_zero_ordinary, allocate_long, free_ordinary, free_as, reallocate_ordinary,                \
      usable_size_ordinary, expand_ordinary, good_size_ordinary, check_bounds_ordinary, size_in, \
      is_object_at, resize_large_ordinary, on_refused
}  // namespace

constinit const Policies core_policies = {{
    {refill_without_heap, push_without_heap, batch_cache::add, LOFT_FOR_ALL_MODES},
    {refill_from_own, bins::push_slow, batch_cache::add, LOFT_FOR_ALL_MODES},
    {refill_from_processors, push_to_processors, free_from_processor, LOFT_FOR_ALL_MODES},
}};
#undef LOFT_FOR_ALL_MODES

// The fast path of owner=cpu: p is not of the processor's heap.
void deallocate_foreign(void* p) {
  if (!pagemap.of(p).is_slab() || LOFT_UNLIKELY(!os::push(p, percpu::kForeignStack))) {
    deallocate_slow(p);
  }
}

LOFT_SEALED constinit Atomic<const Policies*> policies{&core_policies};

bool use(const Policies& chosen) {
  const Policies* const rows = &chosen;
  // Relaxed: whoever chooses does it alone.
  if (policies.load(memory_order_relaxed) == rows) return true;
  return write_sealed(&policies, &rows, sizeof(uintptr_t));
}

}  // namespace loft
