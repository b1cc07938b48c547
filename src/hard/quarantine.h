// What a thread has freed stays out of use for a while (hardened=full): in a row, until as many of
// its class were freed again, and before that in a place that is drawn by lot. So an object is not
// handed out again at once, and nobody can tell when it will be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/peek.h"
#include "base/size_class.h"
#include "cache/thread.h"

namespace loft::hard {

// Of one block; touched by who has the block.
struct Quarantine {
  // As many as have about kQuarantineBytes, twice: drawn by lot, and in a row.
  static constexpr size_t kBytes = 8 * 1024;
  static constexpr unsigned kMost = 64;

  uint64_t random;             // the state of its generator
  Counter held[kSizeClasses];  // objects, for statistics
  Counter medium_bytes;        // the same of those in runs
  uint8_t next[kSizeClasses];  // in the row
  static constexpr unsigned kMediums = 4;
  unsigned next_medium;
  void* mediums[kMediums];
  void* lots[kSizeClasses][kMost];
  void* row[kSizeClasses][kMost];
};

constexpr unsigned quarantine_length(SizeClass c) {
  const size_t fitting = Quarantine::kBytes / class_size(c);
  return static_cast<unsigned>(fitting < 1                   ? 1
                               : fitting > Quarantine::kMost ? Quarantine::kMost
                                                             : fitting);
}

// That of a block. nullptr for no block, or without memory.
Quarantine* make_quarantine(Thread* thread);
inline Quarantine* quarantine_of(Thread* thread) {
  if (LOFT_UNLIKELY(thread == nullptr)) return nullptr;
  return LOFT_LIKELY(thread->quarantine != nullptr) ? thread->quarantine : make_quarantine(thread);
}

// In the child of a fork.
void renew_random(Thread* thread);

// Takes an object in, which reads as zero. Returns one that may be handed out again; nullptr while
// there is room.
void* exchange(Quarantine* quarantine, SizeClass c, void* p);

// The same for an object in a run (medium/medium_run.h).
void* exchange_medium(Quarantine* quarantine, void* p);

// Returns all objects that the block holds: to its heap, if it has one, and into its batches and
// its cache of objects in runs, which the caller empties next.
void empty(Thread* thread);

// How many objects the block holds. Reads beside the thread.
inline unsigned long held(const Thread* thread, SizeClass c) {
  const Quarantine* const quarantine = peek(thread->quarantine);
  return quarantine == nullptr ? 0 : quarantine->held[c].get();
}

inline size_t held_in_runs(const Thread* thread) {
  const Quarantine* const quarantine = peek(thread->quarantine);
  return quarantine == nullptr ? 0 : quarantine->medium_bytes.get();
}

// Calls visit(p) for each object in a slab that the block holds, beside the thread.
template <class Visit>
void for_each(const Thread* thread, Visit visit) {
  const Quarantine* const quarantine = peek(thread->quarantine);
  if (LOFT_LIKELY(quarantine == nullptr)) return;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    for (unsigned i = 0; i < quarantine_length(c); ++i) {
      for (void* const* place : {&quarantine->lots[c][i], &quarantine->row[c][i]}) {
        if (const void* const p = peek(*place); p != nullptr) visit(p);
      }
    }
  }
}

}  // namespace loft::hard
