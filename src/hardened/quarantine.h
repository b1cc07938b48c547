// What a thread has freed stays out of use for a while (hardened=full): in a row, until as many of
// its class were freed again, and before that in a slot that is drawn by lot. So an object is not
// handed out again at once, and nobody can tell when it will be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/peek.h"
#include "base/size_class.h"
#include "cache/thread_cache.h"
#include "hardened/tag.h"
#include "space/pagemap.h"

namespace loft::hardened {

// Of one block; touched by who has the block.
struct Quarantine {
  // As many as have about kQuarantineBytes, twice: drawn by lot, and in a row.
  static constexpr size_t kBytes = 8 * 1024;
  static constexpr unsigned kMost = 64;

  // All that free reads of a class, in half a cache line.
  struct Class {
    uint32_t bytes;   // of a cell
    uint32_t room;    // an address at most so far into a granule has its slot in it
    uint32_t length;  // of both
    uint32_t next;    // in the row
    void** lots;      // the row is kMost further
    uint64_t step;    // key_step(bytes)
  };
  static_assert(sizeof(Class) == 2 * kBinBytes);

  Class of[kSizeClasses];
  Counter held[kSizeClasses];  // objects, for statistics
  Counter medium_bytes;        // the same of those in runs
  uint64_t random;             // the state of its generator
  static constexpr unsigned kMediums = 4;
  unsigned next_medium;
  void* mediums[kMediums];
  void* slots[kSizeClasses][2 * kMost];
};

constexpr unsigned quarantine_length(SizeClass c) {
  const size_t fitting = Quarantine::kBytes / class_size(c);
  return static_cast<unsigned>(fitting < 1                   ? 1
                               : fitting > Quarantine::kMost ? Quarantine::kMost
                                                             : fitting);
}

// That of a block. nullptr for no block, or without memory.
Quarantine* make_quarantine(ThreadCache* thread);
inline Quarantine* quarantine_of(ThreadCache* thread) {
  if (LOFT_UNLIKELY(thread == nullptr)) return nullptr;
  return LOFT_LIKELY(thread->quarantine != nullptr) ? thread->quarantine : make_quarantine(thread);
}

// In the child of a fork.
void renew_random(ThreadCache* thread);

inline void count_held(Quarantine* quarantine, const Quarantine::Class& of) {
  quarantine->held[&of - quarantine->of].add(1);
}

// Of the class whose bins have this offset (space/pagemap.h).
LOFT_ALWAYS_INLINE Quarantine::Class& class_at(Quarantine* quarantine, uint16_t bin) {
  const size_t offset = size_t{bin} - kFirstBinOffset;
  return *reinterpret_cast<Quarantine::Class*>(reinterpret_cast<char*>(quarantine->of) +
                                               offset / kBinBytes * sizeof(Quarantine::Class));
}

// Takes an object in, which reads as zero. Returns one that may be handed out again; nullptr while
// there is room. A fork between two stores loses an object for the child, or finds it in one slot.
// `secret`: a number that nobody can guess, such as the key of the object's address.
LOFT_ALWAYS_INLINE void* exchange(Quarantine* quarantine, Quarantine::Class& of, void* p,
                                  uint64_t secret) {
  const uint32_t length = of.length;
  // A congruential generator, whose steps are secrets: the upper bits are the good ones.
  const uint64_t random = quarantine->random * 0xD1342543DE82EF95u + secret;
  quarantine->random = random;
  void*& lot = of.lots[(random >> 32) * length >> 32];
  void* const drawn = lot;
  lot = p;
  if (LOFT_UNLIKELY(drawn == nullptr)) {
    count_held(quarantine, of);
    return nullptr;
  }
  const uint32_t at = of.next;
  of.next = at + 1 == length ? 0 : at + 1;
  void*& oldest = of.lots[Quarantine::kMost + at];
  void* const out = oldest;
  oldest = drawn;
  if (LOFT_UNLIKELY(out == nullptr)) count_held(quarantine, of);
  return out;
}

// The same for an object in a run (slab/medium_runs.h).
void* exchange_medium(Quarantine* quarantine, void* p);

// Returns all objects that the block holds: to its heap, if it has one, and into its batches and
// its cache of objects in runs, which the caller empties next.
void empty(ThreadCache* thread);

// How many objects the block holds. Reads beside the thread.
inline size_t held(const ThreadCache* thread, SizeClass c) {
  const Quarantine* const quarantine = peek(thread->quarantine);
  return quarantine == nullptr ? 0 : quarantine->held[c].get();
}

inline size_t held_in_runs(const ThreadCache* thread) {
  const Quarantine* const quarantine = peek(thread->quarantine);
  return quarantine == nullptr ? 0 : quarantine->medium_bytes.get();
}

// Calls visit(p) for each object in a slab that the block holds, beside the thread.
template <class Visit>
void for_each(const ThreadCache* thread, Visit visit) {
  const Quarantine* const quarantine = peek(thread->quarantine);
  if (LOFT_LIKELY(quarantine == nullptr)) return;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    for (unsigned i = 0; i < quarantine_length(c); ++i) {
      for (const unsigned at : {i, Quarantine::kMost + i}) {
        if (const void* const p = peek(quarantine->slots[c][at]); p != nullptr) visit(p);
      }
    }
  }
}

}  // namespace loft::hardened
