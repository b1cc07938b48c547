// A site: a call stack that allocates, and what samples say of it. Sites are never removed, so any
// thread may walk them without a lock while others add to them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"

namespace loft::profile {

// The innermost frames of a stack are kept; what lies further out is left off.
inline constexpr unsigned kMostFrames = 96;

// The moment whose memory in use is told. kLeaks: what was counted of it (Site::lost).
enum class Moment : uint8_t { kNow, kPeak, kLeaks };

// Weighted: what the samples stand for, not what they are. Objects in units of 1 / kWeightUnit.
// Written under the lock of samples.cc.
struct Amount {
  Counter objects;
  Counter bytes;  // as requested

  void add(uint64_t more_objects, uint64_t more_bytes) {
    objects.add(more_objects);
    bytes.add(more_bytes);
  }
};

struct Site {
  Site* older;       // never changes
  Site* next;        // with the same hash bucket; under the lock
  uint64_t hash;     // never changes
  unsigned depth;    // never changes
  Amount allocated;  // since the start
  Amount freed;
  Amount at_peak;  // in use at the kept peak
  Amount lost;     // of what is in use: nothing pointed to it when leaks were looked for;
                   // or objects, and bytes that they wasted
  Counter freed_samples;
  Counter lifetime_us;  // of these, together: in nanoseconds, a year of a busy server is too much
  uintptr_t* frames() { return reinterpret_cast<uintptr_t*>(this + 1); }
  const uintptr_t* frames() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
};

// The site of a stack, made if it is new. nullptr without memory. Under the lock of samples.cc.
Site* site_of(const uintptr_t* frames, unsigned depth);

// The newest site; the others follow by `older`. Any thread; only the holder of the lock writes.
Site* newest_site();

}  // namespace loft::profile
