#include "heap/heap.h"
#include "malloc/ordinary.h"

#include "base/bits.h"
#include "cache/batch_cache.h"
#include "cache/medium_cache.h"
#include "heap/large.h"
#include "malloc/allocate.h"
#include "malloc/policy.h"
#include "os/limits.h"
#include "os/os.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "space/span.h"

namespace loft {

namespace {

// What the cache keeps, or from the heap's runs. nullptr without memory or block.
LOFT_ALWAYS_INLINE void* take_medium(size_t size, bool* zero) {
  background::look_after();
  const lifecycle::SlowPath slow;
  ThreadCache* const thread = slow.thread();
  if (LOFT_UNLIKELY(!lifecycle::give_heap(thread))) return nullptr;
  if (void* kept = medium_cache::take(thread, size); LOFT_LIKELY(kept != nullptr)) return kept;
  return medium_cache::take_from_heap(thread, size, false, zero);
}

// nullptr without memory.
void* allocate_span(size_t size, size_t alignment, bool* zero) {
  const lifecycle::SlowPath slow;
  ThreadCache* thread = slow.thread();
  // The heap's gaps may use the memory that is needed.
  if (LOFT_UNLIKELY(limits::tight()) && thread != nullptr && thread->heap != nullptr) {
    const os::Guard guard(thread->heap->lock());
    thread->heap->purge_gaps();
  }
  large::Descriptors* const spare = thread != nullptr ? &thread->spare_large : nullptr;
  void* object = large::allocate(size, alignment, zero, spare);
  if (LOFT_UNLIKELY(object == nullptr)) {
    reclaim(thread);
    object = large::allocate(size, alignment, zero, spare);
  }
  if (object != nullptr && thread != nullptr) {
    thread->counters.net_bytes.add(large::at(pagemap.of(object))->bytes);
  }
  return object;
}

LOFT_NOINLINE void* allocate_pages(size_t size, size_t alignment, bool* zero) {
  alignment = most(alignment, kGranule);
  // PTRDIFF_MAX: the difference of two pointers into one object must be representable.
  if (size > PTRDIFF_MAX - kGranule || alignment > PTRDIFF_MAX || !span::initialise()) {
    return os::out_of_memory();
  }
  background::look_after();
  void* const object = allocate_span(size, alignment, zero);
  return LOFT_LIKELY(object != nullptr) ? object : refuse(size);
}

}  // namespace

void* allocate_medium(size_t size) {
  bool zero = false;
  void* const object = take_medium(size, &zero);
  return LOFT_LIKELY(object != nullptr) ? object : allocate_pages(size, 1, &zero);
}

void* allocate_large(size_t size, size_t alignment, bool zeroed) {
  bool zero = false;
  void* object = nullptr;
  if (is_medium(size) && alignment <= os::page_size()) {
    object = medium_cache::take_recent(this_thread(), size);
    if (LOFT_UNLIKELY(object == nullptr)) object = take_medium(size, &zero);
  }
  if (LOFT_UNLIKELY(object == nullptr)) object = allocate_pages(size, alignment, &zero);
  // Cleared outside of the slow path. Clearing may take milliseconds, and under owner=cpu other
  // threads would wait for the processor's block.
  if (zeroed && !zero && object != nullptr) large::clear(object, round_up(size, os::page_size()));
  return object;
}

// Ends with look_after: the program may take no other slow path for a long time.
void free_large(Large* object) {
  if (LOFT_UNLIKELY(object->sampled)) {
    return policy().free(reinterpret_cast<void*>(object->start()));
  }
  {
    const lifecycle::SlowPath slow;
    ThreadCache* const thread = slow.thread();
    if (LOFT_LIKELY(thread != nullptr)) thread->counters.net_bytes.add(-object->bytes);
    large::release(object, thread != nullptr ? &thread->spare_large : nullptr);
  }
  background::look_after();
}

void free_medium(void* p, Entry entry) {
  if (LOFT_UNLIKELY(medium::is_sampled(entry))) return policy().free(p);
  {
    const lifecycle::SlowPath slow;
    if (LOFT_LIKELY(slow.thread() != nullptr)) {
      medium_cache::keep(slow.thread(), p, entry);
    } else if (medium_cache::mark(p, entry) != nullptr) {
      batch_cache::send_single_medium(p);
    }
  }
  background::look_after();
}

}  // namespace loft
