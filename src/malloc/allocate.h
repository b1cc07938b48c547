// The fast paths of malloc and free. Everything else is a tail call away.
//
//   allocate    size -> bin (a table of offsets) -> pop; an empty bin's top is a null slot
//   deallocate  address -> pagemap entry; owner == mine -> push; another heap's -> set the object's
//               bit in the slab's open batch. One of these comparisons fails for a full bin, a full
//               batch, a large object, a pointer that is null, misaligned or not loft's, and a
//               thread without a block
//
// Under owner=cpu (cache/percpu.h), table_max and thread_limit are 0: both fail their first
// comparison. So the choice of owner costs a thread nothing here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/bins.h"
#include "cache/object.h"
#include "cache/percpu.h"
#include "cache/thread_cache.h"
#include "os/restartable.h"
#include "space/pagemap.h"

namespace loft {

// Slow paths, in the sources beside: tail calls, so that the fast paths save no registers.
template <Maker kMaker>
LOFT_NOINLINE void* allocate_beyond_table(size_t size);
template <Maker kMaker>
LOFT_NOINLINE void* allocate_from_empty(size_t size);
LOFT_NOINLINE void deallocate_foreign(void* p);
LOFT_NOINLINE void deallocate_slow(void* p);
LOFT_NOINLINE void deallocate_slow_as(void* p, Maker maker);
LOFT_NOINLINE void deallocate_slow_sized(void* p, Maker maker, size_t size);
LOFT_NOINLINE void deallocate_unbatched(void* p);
LOFT_NOINLINE void send_full_batch(size_t slot);

// malloc. Results are 16-byte aligned; nullptr and ENOMEM without memory. Any thread, any time.
// operator new must not return nullptr. It passes slow paths of its own, so that checking the
// result costs its fast path nothing.
// It also has bounds of its own: kBeyondTable gets what is beyond them.
using AllocateSlow = void* (*)(size_t);
template <AllocateSlow kBeyondTable = allocate_beyond_table<Maker::kMalloc>,
          AllocateSlow kFromEmpty = allocate_from_empty<Maker::kMalloc>, bool kOperator = false>
LOFT_ALWAYS_INLINE void* allocate(size_t size) {
  if (LOFT_LIKELY(kOperator ? pagemap.operator_table.contains(size) : size <= pagemap.table_max)) {
    if (size > kTableMax) __builtin_unreachable();  // table_max is that or 0
    ThreadCache* thread = this_thread();
    Bin* bin = thread->bin_at(load_entry(thread->bin_of[size]));
    void** top = bin->top();
    void* object = *top;
    if (LOFT_UNLIKELY(object == nullptr)) return kFromEmpty(size);
    bin->pop_from(top);
    LOFT_FORGET(object);
    return object;
  }
  // Only under owner=cpu.
  if (kOperator ? pagemap.operator_core_table.contains(size) : size <= kTableMax) {
    void* object = os::pop_by_table<percpu::kTable>(size);
    return LOFT_LIKELY(object != nullptr) ? object : kFromEmpty(size);
  }
  return kBeyondTable(size);
}

// Remote free: sets the object's bit in the open batch of its slab. Takes no lock, runs no atomic
// operation and does not touch the object. What lies in no slab has an index that is no batch's
// key.
LOFT_ALWAYS_INLINE void add_to_batch(ThreadCache* thread, void* p, uint32_t slab) {
  size_t slot = batch_set(slab);
  if (LOFT_UNLIKELY(thread->batch_keys[slot] != slab)) {
    slot += kBatchSets;
    if (LOFT_UNLIKELY(kBatchWays == 1 || thread->batch_keys[slot] != slab)) {
      return deallocate_unbatched(p);
    }
  }
  Batch* batch = &thread->batches()[slot];
  LOFT_FORGET(batch);
  const Product product = product_of(reinterpret_cast<uintptr_t>(p) - batch->base, batch->inverse);
  const uint64_t index = index_in(product);
  uint64_t& word = batch->words[index / 64];
  const uint64_t before = word;
  const uint64_t after = before | uint64_t{1} << index % 64;
  if (LOFT_UNLIKELY(after == before || !starts_in(product, batch->start_limit))) {
    return report_bad_free(p);
  }
  word = after;
  if (LOFT_UNLIKELY(--batch->left == 0)) return send_full_batch(slot);
}

// free. Keeps errno. Detected misuse stops the program with one line. `slow` stands in for
// deallocate_slow: its caller may know more of the object. `beyond` gets what lies outside of the
// bounds; operator delete has bounds of its own.
template <bool kOperator, class Slow, class Beyond>
LOFT_ALWAYS_INLINE void deallocate(void* p, Slow slow, Beyond beyond) {
  const uint64_t position = pagemap.position(p);
  const Bound& of_thread = kOperator ? pagemap.operator_thread_limit : pagemap.thread_limit;
  if (LOFT_UNLIKELY(!of_thread.contains(position))) {
    const Bound& of_core = kOperator ? pagemap.operator_core_limit : pagemap.core_limit;
    if (LOFT_UNLIKELY(!of_core.contains(position))) return beyond(p);
    const uint64_t word = pagemap.at_position(position).word();
    const os::Pushed pushed = os::push_if_owner(p, word);
    if (LOFT_LIKELY(pushed == os::Pushed::kYes)) return;
    return pushed == os::Pushed::kNo ? slow(p) : deallocate_foreign(p);
  }
  const Entry entry = pagemap.of(p);
  ThreadCache* thread = this_thread();
  if (LOFT_UNLIKELY(entry.owner() != thread->owner)) {
    return add_to_batch(thread, p, entry.index());
  }
  Bin* bin = thread->bin_at(entry.bin());
  // The second comparison finds a second free of what was freed last: malloc would hand the object
  // out twice. Two instructions; the slot lies in the line that the push writes.
  if (LOFT_UNLIKELY(bin->is_full() || *bin->top() == p)) return slow(p);
  bin->push(p);
}
LOFT_ALWAYS_INLINE void deallocate(void* p) {
  const auto slow = [](void* object) { deallocate_slow(object); };
  deallocate<false>(p, slow, slow);
}

// operator delete; and of an object of `size` bytes.
template <class Beyond>
LOFT_ALWAYS_INLINE void deallocate_as(Maker maker, void* p, Beyond beyond) {
  deallocate<true>(p, [=](void* object) { deallocate_slow_as(object, maker); }, beyond);
}
template <class Beyond>
LOFT_ALWAYS_INLINE void deallocate_sized(Maker maker, void* p, size_t size, Beyond beyond) {
  deallocate<true>(p, [=](void* object) { deallocate_slow_sized(object, maker, size); }, beyond);
}

// The rest of the surface (malloc.cc, reallocate.cc). `alignment` is a power of two.
void* allocate_zeroed(size_t size);
void* allocate_aligned(size_t alignment, size_t size, Maker maker = Maker::kMalloc);
void* reallocate(void* p, size_t size);  // p != nullptr, size > 0; keeps p when it fails
size_t usable_size(const void* p);       // 0 for nullptr

// The same with an alignment (malloc/reallocate.cc).
void* allocate_aligned_zeroed(size_t alignment, size_t size);
void* reallocate_aligned(void* p, size_t alignment, size_t size);  // as reallocate

// False, and nothing has changed, where the object cannot have another length where it is. size > 0
bool expand(const char* call, void* p, size_t size);
// The usable size of an object that is asked for with that size.
size_t good_size(size_t alignment, size_t size);

// Stops the program if `bytes` bytes from p on begin in an object of loft's and do not end in it.
void check_bounds(const char* call, const void* p, size_t bytes);

// With hardened=guard or full: free, which stops the program if it is known that not `size` bytes
// were asked for. Otherwise false, and nothing was done.
bool free_as_asked(void* p, size_t size);
// The same of an object of aligned_alloc.
bool free_as_asked(void* p, size_t alignment, size_t size);

// For an allocation that found no memory. reclaim frees unused memory that may be in its way. If
// that does not help, refuse records that `bytes` bytes were refused, and returns nullptr and
// ENOMEM. It may write a profile, so its caller holds no lock.
void reclaim();
void* refuse(size_t bytes);

// Flushes and purges everything that this thread can reach: all except other threads' caches. Keeps
// about `pad` bytes of free spans. Returns the bytes purged.
size_t trim(size_t pad);

// trim(0) that also reports what it cannot reach: other threads with cached objects, and about how
// many bytes they hold.
size_t purge_everything(size_t* unreached_threads, size_t* unreached_bytes);

}  // namespace loft
