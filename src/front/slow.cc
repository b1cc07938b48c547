// The slow paths of allocate.h.
#include "arena/user_heap.h"
#include "base/sealed.h"
#include "base/table_entry.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/medium_cache.h"
#include "cache/object.h"
#include "cpu/core.h"
#include "front/allocate.h"
#include "front/front.h"
#include "front/long.h"
#include "front/metered.h"
#include "front/modes.h"
#include "front/reclaim.h"
#include "heap/registry.h"
#include "large/large.h"
#include "limits/limits.h"
#include "meter/meter.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/restartable.h"
#include "profile/progress.h"
#include "profile/samples.h"
#include "profile/write.h"
#include "purge/background.h"
#include "slab/slab.h"
#include "space/span.h"
#include "thread/lifecycle.h"

namespace loft {

namespace {

Request request_of(size_t size, Maker maker = Maker::kMalloc) {
  return request_of(class_of(most<size_t>(size, 1)), size, maker);
}

// Frees unused memory, and tries again.
LOFT_COLD void* reclaim_and_refill(Request request) {
  void* object = nullptr;
  {
    const lifecycle::SlowPath slow;
    Thread* const thread = slow.thread();
    if (lifecycle::give_heap(thread)) {
      reclaim(thread);
      object = parts_of(thread).refill(thread, request);
    } else if (registry::shared_heap() != nullptr) {
      reclaim(nullptr);
      object = parts_of(&stand_in).refill(&stand_in, request);
    }
  }
  if (object != nullptr) return object;
  return refuse(size_t{geometry(request.size_class).granules} << kGranuleLog);
}

// Not inlined: its callers would save a register for it before they pop.
LOFT_NOINLINE void* allocate_class(Request request) {
  Thread* const thread = this_thread();
  void* const object = parts_of(thread).refill(thread, request);
  return LOFT_LIKELY(object != nullptr) ? object : reclaim_and_refill(request);
}

// The fast path of allocate, for a bin whose offset a table of the block holds for `index`. nullptr
// if the bin is empty. Under owner=cpu, the table is the stand-in's.
template <auto kTable>
LOFT_ALWAYS_INLINE void* pop(size_t index) {
  if (LOFT_UNLIKELY(core::in_use())) {
    return meter::is_turned() ? nullptr : os::pop(load_entry((this_thread()->*kTable)[index]));
  }
  Thread* const thread = this_thread();
  Bin* bin = thread->bin_at(load_entry((thread->*kTable)[index]));
  void** top = bin->top();
  void* object = *top;
  if (LOFT_UNLIKELY(object == nullptr)) return nullptr;
  bin->pop_from(top);
  return object;
}

// From the bin of a size beyond allocate's table.
LOFT_ALWAYS_INLINE void* pop_step(size_t size) {
  size_t last = size - 1;
  // Or the compiler keeps it for the slow path, in one instruction more.
  LOFT_FORGET(last);
  return pop<&Thread::bin_of_step>(last / kStepBytes);
}

void* pop_or_refill(Request request) {
  const size_t size = class_size(request.size_class);
  void* popped = size <= kTableMax ? pop<&Thread::bin_of>(size) : pop_step(size);
  return LOFT_LIKELY(popped != nullptr) ? popped : allocate_class(request);
}

// From this size on, calloc looks for an object on pages without memory. It needs no clearing, and
// the program may never touch most of it. A smaller object is cleared faster than it is found.
constexpr size_t kZeroMin = 4096 + 1;

// nullptr: the caller takes the ordinary path, which may find an object.
void* take_zero(Request request) {
  if (LOFT_UNLIKELY(front::in_use->clears)) return nullptr;
  background::look_after();
  const lifecycle::SlowPath slow;
  Thread* thread = slow.thread();
  if (thread == nullptr || thread->heap == nullptr) return nullptr;
  if (!core::own(thread, request.size_class)) return nullptr;
  if (*thread->bins[request.size_class].top() != nullptr) return nullptr;
  const Charge charge(class_size(request.size_class));
  if (!charge.passes()) return nullptr;
  const os::Guard guard(thread->heap->lock());
  void* object = thread->heap->take_zero(request.size_class);
  if (object != nullptr) thread->heap->note_request(request.size_class, request.asked, 1);
  return charge.for_what_is(object);
}

LOFT_NOINLINE void deallocate_large(void* p, Large* object) {
  if (LOFT_UNLIKELY(reinterpret_cast<uintptr_t>(p) != object->base || object->kept)) {
    return deallocate_slow(p);  // reports it
  }
  free_large(object);
}

// Keeps another heap's object in the thread's own bin. False if it must go into a batch. It is kept
//   (a) if threads trade such objects (cache/trade.h) and the bin has room, unless the slab comes
//       twice in a row: two objects are worth a batch;
//   (b) if its owner is stalled (heap/stall.h), whatever room it takes.
// A double free is detected at once if the object is the last one kept. Otherwise it is detected as
// late as for an object of the thread's own.
bool keep(Thread* thread, void* p, Entry entry) {
  const SizeClass size_class = class_of_bin(entry.bin());
  if (thread->heap == nullptr || !fills_cache_lines(size_class)) return false;
  if (LOFT_UNLIKELY(*thread->bins[size_class].top() == p)) slab::report_bad_free(p);
  Heap& heap = *thread->heap;
  const bool traded = is_tradable(size_class) && thread->trade.keeps(heap.counters()) &&
                      thread->missed_slab != entry.index() && bins::has_space(thread, size_class);
  if (!traded && !heap.stall().is_at(entry.owner())) return false;
  check_start("free", p, entry);
  if (!parts_of(thread).push(thread, size_class, p)) return false;
  if (traded) thread->missed_slab = entry.index();
  thread->counters.turnarounds.add(1);
  return true;
}

// Not inlined: its caller would save a register for it.
LOFT_NOINLINE void* allocate_long(size_t size, Maker maker) {
  if (pagemap.medium_limit.contains(size)) {
    void* recent = medium_cache::take_recent(this_thread(), size);
    if (LOFT_LIKELY(recent != nullptr)) return recent;
  }
  return front::in_use->allocate_long(size, 1, false, maker);
}

}  // namespace

LOFT_COLD void* refuse(size_t bytes) {
  limits::note_refusal(span::committed(), bytes);
  if (profile::prepared()) profile::write_refused();
  return os::out_of_memory();
}

template <Maker kMaker>
void* allocate_from_empty(size_t size) {
  return allocate_class(request_of(size, kMaker));
}

template <Maker kMaker>
void* allocate_beyond_table(size_t size) {
  if (LOFT_UNLIKELY(size > kSmallMax)) return allocate_long(size, kMaker);
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
    return front::in_use->allocate_long(size, 1, true, Maker::kMalloc);
  }
  if (size >= kZeroMin) {
    void* popped = pop_step(size);
    if (popped != nullptr) return __builtin_memset(popped, 0, size);
    if (void* zero = take_zero(request_of(size)); zero != nullptr) return zero;
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
Request aligned_request(size_t alignment, size_t size, Maker maker) {
  alignment = most(alignment, kAlignment);
  const SizeClass c = class_of(round_up(most<size_t>(size, 1), alignment));
  return {static_cast<uint8_t>(c), static_cast<uint8_t>(highest_bit(alignment)), maker,
          static_cast<uint32_t>(size)};
}

}  // namespace

void* allocate_aligned(size_t alignment, size_t size, Maker maker) {
  if (alignment <= kAlignment && maker == Maker::kMalloc) return allocate(size);
  if (is_for_slab(alignment, size)) return pop_or_refill(aligned_request(alignment, size, maker));
  return front::in_use->allocate_long(most<size_t>(size, 1), alignment, false, maker);
}

void* allocate_aligned_zeroed(size_t alignment, size_t size) {
  if (alignment <= kAlignment) return allocate_zeroed(size);
  if (!is_for_slab(alignment, size)) {
    return front::in_use->allocate_long(most<size_t>(size, 1), alignment, true, Maker::kMalloc);
  }
  const Request request = aligned_request(alignment, size, Maker::kMalloc);
  if (size >= kZeroMin) {
    void* const popped = pop_step(class_size(request.size_class));
    if (popped != nullptr) return __builtin_memset(popped, 0, size);
    if (void* const zero = take_zero(request); zero != nullptr) return zero;
  }
  void* const object = pop_or_refill(request);
  if (LOFT_LIKELY(object != nullptr)) __builtin_memset(object, 0, size);
  return object;
}

// False if it is the thread's own, whose block the slow path may have just set up.
LOFT_ALWAYS_INLINE bool add_unbatched(void* p, Entry entry) {
  const lifecycle::SlowPath slow;
  Thread* const thread = slow.thread();
  if (LOFT_UNLIKELY(thread == nullptr || entry.owner() == thread->owner)) return false;
  if (!keep(thread, p, entry)) batch_cache::add(thread, p, entry);
  return true;
}

// p is not of the thread's heap, and the fast path found no open batch for it. Mostly it is another
// heap's object or a large one.
void deallocate_unbatched(void* p) {
  const Entry entry = pagemap.of(p);
  if (LOFT_LIKELY(entry.is_slab())) {
    if (LOFT_LIKELY(add_unbatched(p, entry))) return background::look_after();
  } else if (entry.bin() == kMedium) {
    return free_medium(p, entry);
  } else if (entry.bin() == kLarge) {
    return deallocate_large(p, large::at(entry));
  }
  deallocate_slow(p);
}

// Only under owner=cpu: p is not of the processor's heap.
void deallocate_foreign(void* p) {
  if (!pagemap.of(p).is_slab() || LOFT_UNLIKELY(!os::push(p, core::kForeignStack))) {
    deallocate_slow(p);
  }
}

namespace {

// True if it took a slow path of the heap.
bool free_small(void* p, Entry entry) {
  const lifecycle::SlowPath slow;
  Thread* thread = slow.thread();
  if (LOFT_UNLIKELY(thread == nullptr)) {
    batch_cache::send_single(p, entry);
    return false;
  }
  if (LOFT_LIKELY(entry.owner() != thread->owner)) {
    parts_of(thread).free_remote(thread, p, entry);
    return false;
  }
  const size_t flushes = thread->counters.flushes.get();
  if (!parts_of(thread).push(thread, class_of_bin(entry.bin()), p)) {
    batch_cache::send_single(thread, p, entry);
  }
  return thread->counters.flushes.get() != flushes || slow_paths_left == 1;
}

}  // namespace

namespace {

// Keeps errno, as every function of the system floor does.
void free_ordinary(void* p) {
  if (p == nullptr) return;
  const Entry entry = checked_entry("free", p);
  if (entry.bin() == kNothing) return;  // reported; misuse=continue goes on
  if (entry.bin() == kExtent) {
    UserHeap::free("free", Shard::extent_at(entry), p);
    return background::look_after();
  }
  if (entry.bin() == kMedium) return free_medium(p, entry);
  if (entry.bin() == kLarge) {
    check_start("free", p, entry);
    return free_large(large::at(entry));
  }
  if (LOFT_UNLIKELY(free_small(p, entry))) background::look_after();
}

void free_ordinary_as(void* p, front::Freed) { free_ordinary(p); }

}  // namespace

namespace front {

constinit const Parts ordinary = {allocate_ordinary_long, free_ordinary,
                                  free_ordinary_as,       reallocate_ordinary,
                                  usable_size_ordinary,   expand_ordinary,
                                  good_size_ordinary,     check_bounds_ordinary,
                                  size_in_ordinary,       false};
LOFT_SEALED constinit const Parts* in_use = &ordinary;

bool use(const Parts& parts) {
  const Parts* const chosen = &parts;
  return write_sealed(&in_use, &chosen, sizeof(uintptr_t));
}

}  // namespace front

void deallocate_slow(void* p) { front::in_use->free(p); }
void deallocate_slow_as(void* p, Maker maker) {
  front::in_use->free_as(p, {0, false, true, maker, 0});
}
void deallocate_slow_sized(void* p, Maker maker, size_t size) {
  front::in_use->free_as(p, {size, true, true, maker, 0});
}

void send_full_batch(size_t place) {
  {
    const lifecycle::SlowPath slow;
    batch_cache::send(slow.thread(), place);
  }
  background::look_after();
}

}  // namespace loft
