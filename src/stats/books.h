// Sums of loft's own counters over heaps and threads. Waits for no lock: figures of a running
// thread are from slightly different moments.
#pragma once

#include "base/size_class.h"
#include "loft/loft.h"

namespace loft {

struct ClassBooks {
  size_t out;      // objects not free in their slabs
  size_t held;     // of these, in thread caches
  size_t flying;   // of these, in batches and messages
  size_t charged;  // bytes of slab pages that have memory, as far as loft knows
  size_t asked;    // as in ClassCounters
  size_t slabs_created, slabs_released;
  size_t refills, taken, put, sent, received;
};

struct Books {
  ClassBooks classes[kSizeClasses];
  size_t medium_out;       // bytes of medium objects handed out, or kept
  size_t medium_received;  // bytes of these that came back by message
  size_t dirty_bytes;      // free spans
  size_t refused_bytes;    // of these, in spans that the system did not take back
};

// Also fills the fields of `stats` that come from counters. They must be zero before.
void read_books(Books& books, loft_stats_t& stats);

}  // namespace loft
