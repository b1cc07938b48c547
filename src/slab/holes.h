// Holes: pages of a partly used slab on which no object lives. No metadata lies in objects, so such
// a page can be purged by itself. The slab remembers its holes.
#pragma once

#include <cstddef>

#include "base/atomic.h"
#include "slab/slab.h"

namespace loft {

// A heap's counters of a size class, updated on slow paths. Written under the heap's lock. Any
// thread may read them without stopping the writer, so sums may differ a little while it runs.
//
// One cache line: a refill or a flush touches one of them. Invariants, under the heap's lock,
// except for amounts that slabs took along in a take-over:
//   taken - put - received == sum over its slabs of objects - free
//   charged == sum over its slabs, spare ones included, of pages() - gone.count()
//   slabs_created - slabs_released == number of its slabs without the spare ones
struct alignas(64) ClassCounters {
  Counter refills;
  Counter taken;     // objects handed out by slabs
  Counter put;       // objects given back by the owner
  Counter received;  // objects that came back by message
  Counter asked;     // bytes requested; all objects of a refill count as its one known request
  Counter charged;   // pages of the slabs with memory, as far as loft knows
  Counter slabs_created;
  Counter slabs_released;

  // Under the heap's lock, modulo 2^64. Below zero if objects that another heap counted as taken
  // came back here.
  size_t out() const { return taken.get() - put.get() - received.get(); }
  size_t slabs() const { return slabs_created.get() - slabs_released.get(); }
};
static_assert(sizeof(ClassCounters) == 64);

// Purges the holes of several slabs, some at a time. Under the lock of the slabs' heap, from the
// first call to the end of finish. Until then, the slabs stay.
class Holes {
 public:
  // Subtracts purged pages from `charged` in the counters of the slab's class.
  explicit Holes(ClassCounters* classes) : classes_(classes) {}

  void purge(Slab* slab);
  size_t finish();                           // the bytes purged
  size_t purged() const { return purged_; }  // so far
  bool refused() const { return refused_; }  // some hole was, as locked pages are

 private:
  struct Hole {
    Slab* slab;
    uint32_t first;
    uint32_t count;
  };
  static constexpr unsigned kAtOnce = 16;

  void add(Hole hole);
  void purge_found();

  ClassCounters* classes_;
  size_t purged_ = 0;
  bool refused_ = false;
  unsigned found_ = 0;
  Hole holes_[kAtOnce];  // the first found_ are set
};

}  // namespace loft
