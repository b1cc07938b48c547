// What loft says of itself, and of a heap of the program's own.
#pragma once

#include <gtest/gtest.h>

#include "loft/loft.h"

namespace surface {

inline loft_stats_t stats() {
  loft_stats_t s = {};
  s.struct_size = sizeof(s);
  EXPECT_EQ(loft_stats(&s), 0);
  return s;
}

inline loft_heap_stats_t stats_of(const loft_heap_t* heap) {
  loft_heap_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(loft_heap_stats(heap, &stats), 0);
  EXPECT_EQ(stats.struct_size, sizeof(stats));
  return stats;
}

}  // namespace surface
