// What loft's own counters say, summed over heaps and threads. No lock is waited for: what is read
// of a thread that runs meanwhile is of slightly different moments.
#pragma once

#include "base/size_class.h"
#include "loft/loft.h"

namespace loft {

struct ClassBooks {
  unsigned long out;     // objects not free in their slabs: the program's,
  unsigned long held;    // or in thread caches,
  unsigned long flying;  // or in batches and messages
  size_t charged;        // bytes of pages of slabs that have memory, as far as loft knows
  size_t asked;          // as in ClassCounters
  unsigned long slabs_created, slabs_released;
  unsigned long refills, taken, put, sent, received;
};

struct Books {
  ClassBooks classes[kSizeClasses];
  size_t dirty_bytes;    // free spans
  size_t refused_bytes;  // of these
};

// Also fills the fields of `stats` that counters tell, which were zero.
void read_books(Books& books, loft_stats_t& stats);

}  // namespace loft
