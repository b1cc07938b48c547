// Keeps the medium objects that a thread freed last, for its next allocations of the same length.
// Such a pair of calls takes no lock and no atomic operation. A program that allocates and frees
// one buffer per request makes such pairs all day.
//
// The object freed last lies in a bin of its own, where free's fast path puts it unchecked. What
// comes next finds that bin full, or finds there an object of another length. The object then moves
// to one of sixteen slots. It is checked and marked as kept there.
//
// An object of another heap is kept only by a thread that allocates such objects, too: one that
// only frees sends them to their heaps.
#pragma once

#include "cache/thread_cache.h"
#include "slab/medium_runs.h"

namespace loft::medium_cache {

// Takes a kept object of `bytes` bytes, a multiple of the page size, for a request of `asked` of
// them. nullptr if there is none. The contents are unchanged.
void* take(ThreadCache* thread, size_t bytes, size_t asked);

// The same for a request of `asked` bytes: only the object in the bin, if it is the one handed out
// last and still has its length.
LOFT_ALWAYS_INLINE void* take_recent(ThreadCache* thread, size_t asked) {
  MediumCache& cache = thread->medium;
  const MediumCache::Last& last = cache.last_taken;
  void** const top = thread->recent.top();
  void* const p = *top;
  if (LOFT_UNLIKELY(p == nullptr || p != last.at)) return nullptr;
  const size_t slack = last.bytes - asked;
  // Relaxed: a free of an object that is younger than the end of an older run comes after that end.
  const uint32_t destroyed = medium::destroyed.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(slack >= last.page || destroyed != last.destroyed)) return nullptr;
  if (LOFT_UNLIKELY(!last.word->is(last.pages))) return nullptr;
  thread->recent.pop_from(top);
  ++cache.again;
  last.word->set(last.pages, slack);
  return p;
}

// The same from the thread's heap, for a thread that has one. `room`: as for Heap::take_medium.
// *zero: whether it is known to read as zero. nullptr without memory.
void* take_from_heap(ThreadCache* thread, size_t asked, bool room, bool* zero);

// Marks an object that the program frees as kept. Stops the program if there is none at p, or with
// the option misuse=continue returns nullptr.
MediumWord* mark(void* p, Entry entry);

// Takes a freed object: into the cache, in place of older ones if need be, or to its heap. Stops
// the program if the object is free already.
void keep(ThreadCache* thread, void* p, Entry entry);

// Returns all kept objects to their heaps.
void release_all(ThreadCache* thread);

// Makes the empty cache as new, for the block's next thread.
void reset(ThreadCache* thread);

// In the child of a fork: the same of a thread that the child does not have.
void inherit(ThreadCache* dead);

// Returns the objects of all slots from which none was taken since the last call. Called every few
// dozen refills. A kept object saves one turn at its heap, which is worth its memory only if such
// objects come and go about as often as bins are refilled.
void review(ThreadCache* thread);

// Allocations that the cache served, so far. Reads beside the thread.
size_t hits(const ThreadCache* thread);

// Bytes in the cache. *recent: the object in the bin; nullptr for none. Reads beside the thread.
size_t held(const ThreadCache* thread, const void** recent);

}  // namespace loft::medium_cache
