// malloc and free. The two fast paths, on one screen; everything else is a tail call away.
//
//   allocate    size -> bin (a table of offsets) -> pop; an empty bin's top is a null slot
//   deallocate  address -> pagemap entry; owner == mine -> push; another heap's -> set its bit in
//               the slab's open batch. A full bin, a full batch, a large object, a pointer that is
//               foreign, misaligned or null, and a thread without a block all fail one of these
//               comparisons
//
// Where processors hold the caches (cpu/core.h), both fail their first comparison, whose other
// side then is 0: which owner was chosen costs nothing here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/thread.h"
#include "cpu/core.h"
#include "os/restartable.h"
#include "space/pagemap.h"

namespace loft {

// Slow paths (front/slow.cc). Called last, so that the fast paths save no registers.
LOFT_NOINLINE void* allocate_beyond_table(size_t size);
LOFT_NOINLINE void* allocate_from_empty(size_t size);
LOFT_NOINLINE void deallocate_foreign(void* p);
LOFT_NOINLINE void deallocate_slow(void* p);
LOFT_NOINLINE void deallocate_unbatched(void* p);
LOFT_NOINLINE void send_full_batch(size_t place);

// malloc: 16-byte aligned; nullptr and ENOMEM without memory. Any thread, any time. operator new,
// for which nullptr is no answer, puts slow sides of its own in: looking at the result costs it
// nothing.
using AllocateSlow = void* (*)(size_t);
template <AllocateSlow kBeyondTable = allocate_beyond_table,
          AllocateSlow kFromEmpty = allocate_from_empty>
LOFT_ALWAYS_INLINE void* allocate(size_t size) {
  if (LOFT_LIKELY(size <= pagemap.table_max)) {
    if (size > kTableMax) __builtin_unreachable();  // table_max is that or 0
    Thread* thread = this_thread();
    Bin* bin = thread->bin_at(thread->bin_of[size]);
    void** top = bin->top;
    void* object = *top;
    if (LOFT_UNLIKELY(object == nullptr)) return kFromEmpty(size);
    bin->top = top - 1;
    LOFT_FORGET(object);
    return object;
  }
  if (size <= kTableMax) {  // only where processors have the caches
    void* object = os::pop_by_table<core::kTable>(size);
    return LOFT_LIKELY(object != nullptr) ? object : kFromEmpty(size);
  }
  return kBeyondTable(size);
}

// The remote half of free: sets the object's bit in the open batch of its slab. No lock, no atomic,
// and the object itself is not touched.
LOFT_ALWAYS_INLINE void add_to_batch(Thread* thread, void* p, uint32_t slab) {
  size_t place = batch_set(slab);
  if (LOFT_UNLIKELY(thread->batch_keys[place] != slab)) {
    place += kBatchSets;
    if (LOFT_UNLIKELY(kBatchWays == 1 || thread->batch_keys[place] != slab)) {
      return deallocate_unbatched(p);
    }
  }
  Batch* batch = &thread->batches()[place];
  LOFT_FORGET(batch);
  const uint64_t product = (reinterpret_cast<uintptr_t>(p) - batch->base) * batch->inverse;
  const uint32_t index = index_in(product);
  uint64_t& word = batch->words[index / 64];
  const uint64_t before = word;
  const uint64_t after = before | uint64_t{1} << index % 64;
  if (LOFT_UNLIKELY(after == before || product << (64 - kInverseShift) >= batch->start_limit)) {
    return slab::report_bad_free(p);
  }
  word = after;
  if (LOFT_UNLIKELY(--batch->room == 0)) return send_full_batch(place);
}

// free: keeps errno. Misuse that is seen stops the program with one line.
LOFT_ALWAYS_INLINE void deallocate(void* p) {
  const uint64_t position = pagemap.position(p);
  if (LOFT_UNLIKELY(!pagemap.thread_limit.contains(position))) {
    if (LOFT_UNLIKELY(!pagemap.core_limit.contains(position))) return deallocate_slow(p);
    const uint64_t word = pagemap.at_position(position).word();
    const os::Pushed pushed = os::push_if_owner(p, word);
    if (LOFT_LIKELY(pushed == os::Pushed::kYes)) return;
    return pushed == os::Pushed::kNo ? deallocate_slow(p) : deallocate_foreign(p);
  }
  const Entry entry = pagemap.of(p);
  Thread* thread = this_thread();
  if (LOFT_UNLIKELY(entry.owner() != thread->owner)) {
    return add_to_batch(thread, p, entry.index());
  }
  Bin* bin = thread->bin_at(entry.bin());
  void** top = bin->top;
  if (LOFT_UNLIKELY(top >= bin->limit)) return deallocate_slow(p);
  top[1] = p;
  compiler_fence();  // the heir of a thread that died in a fork never sees a slot before its object
  ++bin->top;        // in memory, for an instruction less than to store the new top
}

// The rest of the surface (front/slow.cc, front/reallocate.cc). `alignment` is a power of two.
void* allocate_zeroed(size_t size);
void* allocate_aligned(size_t alignment, size_t size);
void* reallocate(void* p, size_t size);  // p != nullptr, size > 0; keeps p when it fails
size_t usable_size(const void* p);       // 0 for nullptr

// For an allocation that found no memory: lets go of what nobody uses and may be in its way; and,
// if that was no help, says that `bytes` bytes are refused. nullptr and ENOMEM.
void make_way();
void* refuse(size_t bytes);

// Sends home and gives back what can be reached from this thread: all but what is in other
// threads' caches. Bytes given to the system, keeping about `pad` bytes of free spans.
size_t trim(size_t pad);

// The same for every thread that can be reached. *unreached_threads and *unreached_bytes tell of
// the others.
size_t purge_everything(size_t* unreached_threads, size_t* unreached_bytes);

}  // namespace loft
