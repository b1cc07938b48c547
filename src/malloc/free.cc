// The slow paths of free.
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/object.h"
#include "heap/large.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "runtime/youth.h"

namespace loft {

namespace {

LOFT_NOINLINE void deallocate_large(void* p, Large* object) {
  if (LOFT_UNLIKELY(reinterpret_cast<uintptr_t>(p) != object->base || object->kept)) {
    return deallocate_slow(p);  // reports it
  }
  free_large(object);
}

// Keeps another heap's object in the thread's own bin, if should_keep says so. False if it must go
// into a batch, as every object must that shares a cache line. A double free is detected at once if
// the object is the last one kept; otherwise as late as for an object of the thread's own.
bool keep(ThreadCache* thread, void* p, Entry entry) {
  const SizeClass c = class_of_bin(entry.bin());
  if (thread->heap == nullptr || !fills_cache_lines(c)) return false;
  if (LOFT_UNLIKELY(*thread->bins[c].top() == p)) report_bad_free(p);
  const Keep keeps = should_keep(thread, c, entry);
  if (keeps == Keep::kNo) return false;
  check_start("free", p, entry);
  if (!policy_of(thread).push(thread, c, p)) return false;
  if (keeps == Keep::kTrade) thread->missed_slab = entry.index();
  thread->counters.turnarounds.add(1);
  return true;
}

// False if the object is the thread's own, whose block the slow path may have just set up, or if
// the thread gets no block.
LOFT_ALWAYS_INLINE bool add_unbatched(void* p, Entry entry) {
  if (youth::put(p, entry)) return true;
  const lifecycle::SlowPath slow;
  ThreadCache* const thread = slow.thread();
  if (LOFT_UNLIKELY(thread == nullptr || entry.owner() == thread->owner)) return false;
  if (!keep(thread, p, entry)) batch_cache::add(thread, p, entry);
  return true;
}

}  // namespace

// The block does not own p, and has no open batch for it. Mostly p is another heap's object or a
// large one.
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

namespace {

// True if it flushed, which is a slow path of the heap, or if a look is due.
bool free_small(void* p, Entry entry) {
  if (youth::put(p, entry)) return true;
  const lifecycle::SlowPath slow;
  ThreadCache* thread = slow.thread();
  if (LOFT_UNLIKELY(thread == nullptr)) {
    batch_cache::send_single(p, entry);
    return false;
  }
  if (LOFT_LIKELY(entry.owner() != thread->owner)) {
    policy_of(thread).free_remote(thread, p, entry);
    return false;
  }
  const size_t flushes = thread->counters.flushes.get();
  if (!policy_of(thread).push(thread, class_of_bin(entry.bin()), p)) {
    batch_cache::send_single(thread, p, entry);
  }
  return thread->counters.flushes.get() != flushes || slow_paths_left == 1;
}

}  // namespace

// Keeps errno, because every function of os/ does.
void free_ordinary(void* p) {
  if (p == nullptr) return;
  const Entry entry = checked_entry("free", p);
  if (entry.bin() == kNothing) return;  // reported; misuse=continue goes on
  if (entry.bin() == kGuest) {
    guest_objects.free("free", p, entry);
    return background::look_after();
  }
  if (entry.bin() == kMedium) return free_medium(p, entry);
  if (entry.bin() == kLarge) {
    check_start("free", p, entry);
    return free_large(large::at(entry));
  }
  if (LOFT_UNLIKELY(free_small(p, entry))) background::look_after();
}

void deallocate_slow(void* p) { policy().free(p); }
void deallocate_slow_as(void* p, Maker maker) { policy().free_as(p, {0, false, true, maker, 0}); }
void deallocate_slow_sized(void* p, Maker maker, size_t size) {
  policy().free_as(p, {size, true, true, maker, 0});
}

void send_full_batch(size_t slot) {
  {
    const lifecycle::SlowPath slow;
    batch_cache::send(slow.thread(), slot);
  }
  background::look_after();
}

}  // namespace loft
