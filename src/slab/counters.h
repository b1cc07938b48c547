// What a heap counts of each size class, on its slow paths. Written under the heap's lock, read by
// anybody: without stopping the writer, so that sums may differ a little while it runs.
#pragma once

#include "base/atomic.h"

namespace loft {

// One cache line: a refill or a flush touches one of them.
// Invariants, under the heap's lock:
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

  unsigned long out() const {  // read in this order, it never comes out below zero
    const unsigned long back = put.get() + received.get();
    return taken.get() - back;
  }
  unsigned long slabs() const {
    const unsigned long released = slabs_released.get();
    return slabs_created.get() - released;
  }
};
static_assert(sizeof(ClassCounters) == 64);

}  // namespace loft
