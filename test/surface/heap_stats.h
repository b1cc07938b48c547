// What loft says of a heap of the program's own.
#pragma once

#include <gtest/gtest.h>

#include "loft/loft.h"

namespace surface {

inline loft_heap_stats_t stats_of(const loft_heap_t* heap) {
  loft_heap_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(loft_heap_stats(heap, &stats), 0);
  EXPECT_EQ(stats.struct_size, sizeof(stats));
  return stats;
}

}  // namespace surface
