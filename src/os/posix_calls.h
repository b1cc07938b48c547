// The system calls made so far: os/posix.cc keeps the sums, and a system's own file counts.
#pragma once

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::os {

// Relaxed: these are sums for statistics and order nothing.
extern LOFT_HIDDEN Atomic<unsigned long> map_calls;
extern LOFT_HIDDEN Atomic<unsigned long> discard_calls;

inline void count_map() { map_calls.fetch_add(1, memory_order_relaxed); }
inline void count_discard() { discard_calls.fetch_add(1, memory_order_relaxed); }

}  // namespace loft::os
