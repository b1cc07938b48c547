// A heap's counters of each size class, updated on slow paths. Written under the heap's lock. Any
// thread may read them without stopping the writer, so sums may differ a little while it runs.
#pragma once

#include "base/atomic.h"

namespace loft {

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

}  // namespace loft
