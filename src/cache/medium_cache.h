// Keeps the medium objects that a thread freed last, for its next allocations of the same length.
// Such a pair of calls takes no lock and no atomic operation. A program that allocates and frees
// one buffer per request makes such pairs all day.
//
// The object freed last lies in a bin of its own, where free's fast path puts it unchecked. There
// it serves an allocation of its pages, if it is in use as far as its run knows. What comes next
// and finds that bin full, or an object of another length in it, checks the object, marks it as
// kept and moves it to one of sixteen slots.
//
// An object of another heap is kept only by a thread that allocates such objects, too: one that
// only frees sends them to their heaps.
#pragma once

#include <bit>

#include "cache/thread_cache.h"
#include "slab/medium_runs.h"

namespace loft::medium_cache {

// Takes the object in the bin if it has the pages for `asked` bytes, which may be any number, and
// no more. nullptr if there is none. The contents are unchanged.
LOFT_ALWAYS_INLINE void* take_recent(ThreadCache* thread, size_t asked) {
  void** const top = thread->recent.top();
  void* p = *top;
  if (LOFT_UNLIKELY(p == nullptr)) return nullptr;
  uint64_t entry = std::rotl(pagemap.of(p).word(), 16);  // bin lowest, index highest
  LOFT_FORGET(entry);                                    // or they are unpacked from another copy
  if (LOFT_UNLIKELY(static_cast<uint16_t>(entry) != kMedium)) return nullptr;
  auto* run = metadata::at_index<MediumRun>(static_cast<uint32_t>(entry >> 32));
  uintptr_t page = run->page_starting_at(p);
  if (LOFT_UNLIKELY(page >= kMostRunPages)) return nullptr;
  if (LOFT_UNLIKELY(!(run->words + page)->serves(asked, pagemap.medium_page))) return nullptr;
  thread->recent.pop_from(top);
  LOFT_FORGET(run);  // or an instruction finds the word for both
  LOFT_FORGET(page);
  (run->words + page)->set(asked);
  ++thread->counters.medium_hits;
  LOFT_FORGET(p);  // or it lies in another register than what is returned
  if (p == nullptr) __builtin_unreachable();
  return p;
}

// The same of the kept objects. What is in the bin joins them.
void* take(ThreadCache* thread, size_t asked);

// One of `asked` bytes from the thread's heap, for a thread that has one. `room`: as for
// Heap::take_medium. *zero: whether it is known to read as zero. nullptr without memory.
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
