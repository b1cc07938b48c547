// What a heap counts of each size class, on its slow paths. Written under the heap's lock, read by
// anybody: without stopping the writer, so that sums may differ a little while it runs.
#pragma once

#include "base/atomic.h"

namespace loft {

// One cache line: a refill or a flush touches one of them.
// Invariants, under the heap's lock, but for what slabs took along that changed hands:
//   taken - put - received == sum over its slabs of objects - free
//   charged == sum over its slabs, spare ones included, of pages() - gone.count()
//   slabs_created - slabs_released == how many they are without the spare ones
struct alignas(64) ClassCounters {
  Counter refills;
  Counter taken;     // objects that slabs handed out
  Counter put;       // objects that the owner gave back
  Counter received;  // objects that came back by message
  Counter asked;     // bytes, as if each object were asked for as the one known of its refill
  Counter charged;   // pages of the slabs that have memory, as far as loft knows
  Counter slabs_created;
  Counter slabs_released;

  // Under the heap's lock, modulo 2^64: below zero, if what was counted elsewhere is gone.
  unsigned long out() const { return taken.get() - put.get() - received.get(); }
  unsigned long slabs() const { return slabs_created.get() - slabs_released.get(); }
};
static_assert(sizeof(ClassCounters) == 64);

}  // namespace loft
