// What the files of the spans share: their locks, and the bytes that count against the limits.
#pragma once

#include <cstddef>

#include "base/atomic.h"
#include "base/idle.h"
#include "base/macros.h"
#include "os/lock.h"

namespace loft::span::ledger {

extern LOFT_HIDDEN os::Lock lock;

// Held by a purge, and by a thread that populates, while spans are in transit: in no list, between
// two holds of `lock`. Taken before `lock`. A thread that finds no memory waits for this lock,
// because the spans in transit come back.
extern LOFT_HIDDEN os::Lock purging;
extern LOFT_HIDDEN Counter in_transit_bytes;  // counted as resident
extern LOFT_HIDDEN Counter ahead_bytes;  // so are these: populated ahead of use (space/prefault.h)

// The granules in use count by the sum of the two. `recounted` holds the changes made without the
// lock. Relaxed: a thread that gives granules back under the lock has recounted them before.
extern LOFT_HIDDEN Counter in_use;
extern LOFT_HIDDEN Atomic<size_t> recounted;
inline size_t used() { return in_use.get() + recounted.load(memory_order_relaxed); }

extern LOFT_HIDDEN LowWater<kDecayTicks> least_dirty;

// Bytes of the heap that may be resident. Takes no lock: a hint.
size_t counted();
// With loft's own tables. Under `lock`.
size_t committed_locked();

}  // namespace loft::span::ledger
