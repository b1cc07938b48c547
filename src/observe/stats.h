// Statistics: reads the floors below, never steers them, and allocates nothing.
#pragma once

#include "loft/loft.h"

namespace loft {

// Fills every field but struct_size. Counters are read without stopping anybody: each is right for
// some moment of the call, sums may differ a little while other threads run.
void collect(loft_stats_t& stats);

}  // namespace loft
