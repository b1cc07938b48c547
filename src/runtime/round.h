// How unused memory goes back to the system: by time, in rounds over all of it; and at once where
// there is too much.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/os.h"

namespace loft {

// One round over all memory that nobody uses: the heaps of threads that have allocated nothing for
// some ticks, of processors and of nobody, the program's own heaps, and free spans. Whoever goes
// on with a round does a share of it. One thread at a time.
class Round {
 public:
  // What one call does at most: so many heaps, and bytes that go back to the system.
  struct Share {
    unsigned heaps;
    size_t bytes;
  };

  // Begins a round, so many ticks after the last, or goes on with the one that is under way. True
  // at its end.
  bool go_on(Share share, unsigned ticks);

  // Whether the last round had nothing to do, and the next one has nothing to wait for.
  bool found_nothing() const { return found_nothing_; }

 private:
  void begin(unsigned ticks);
  void visit_heaps(Share& share);
  void visit_others();

  unsigned ticks_ = 0;
  unsigned next_ = 0;  // the heap to visit next; 0: no round is under way
  bool only_spans_left_ = false;
  bool found_nothing_ = true;
  size_t just_freed_ = 0;  // bytes of spans that the round has freed
  size_t wanted_ = 0;      // bytes of free spans to purge yet
};

// A pause between purges of an excess. Faulting a page in again costs some ten times as much as
// purging it. With the pause, a program that frees and allocates the same memory again and again
// loses part of its time to this, and not nearly all. For the holder of a lock.
class PurgePause {
 public:
  // Calls `purge`, unless the last call was too recent: false. At once if memory is `scarce`:
  // others need it now.
  template <class Purge>
  bool purge_or_wait(bool scarce, Purge purge) {
    constexpr uint64_t kPause = 64;  // times the duration of the purge
    const uint64_t begin = os::now_ns();
    if (!scarce && begin < next_) return false;
    purge();
    const uint64_t end = os::now_ns();
    next_ = end + kPause * (end - begin);
    return true;
  }

 private:
  uint64_t next_ = 0;
};

// Gives back what is unused beyond its bound (space/unused.h): free spans first, then what is free
// in the slabs and runs of all heaps. With no lock held. One thread does it, for what others free
// meanwhile, too. These give back spare slabs of their own heaps, and go on.
void purge_excess();

// In the child of a fork.
void forget_excess();

}  // namespace loft
