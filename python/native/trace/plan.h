// What loft-trace makes of one process of a trace, and loft-replay carries out: the calls of each
// thread, with a place for each object in place of its address. A file that lives as long as one
// `loft replay`, read by mapping it.
#ifndef LOFT_TRACE_PLAN_H_
#define LOFT_TRACE_PLAN_H_

#include <stdint.h>

#include "format.h"

namespace trace {

inline constexpr uint64_t kPlanMagic = 0x31304e414c504c54;  // "TLPLAN01"

struct PlanHeader {
  uint64_t magic;
  uint64_t file_bytes;
  uint64_t threads;  // that many PlanThreads follow, and then the steps
  uint64_t steps;
  uint64_t samples;
  uint64_t calls;
  // Places of objects: first those that one thread allocates and another frees, each used once;
  // then, for each thread, those that it frees itself, used again and again.
  uint64_t places;
};

struct PlanThread {
  uint64_t first_step;
  uint64_t steps;
  uint64_t first_place;
  uint64_t first_ticket;
  uint64_t number;   // in the recording
  uint64_t spawned;  // 1 if another thread's step starts it, else it is there from the start
};

// A sample of the memory, beside the calls of allocators in format.h.
inline constexpr uint8_t kSample = 30;

enum : uint8_t {
  kFailed = 1,     // there was no object: the call failed, or freed nothing
  kHanded = 2,     // the place is one of those used once
  kOldHanded = 4,  // so is the old one
  kGone = 8,       // a realloc to nothing, which freed the old one
};

struct Step {
  uint8_t call;
  uint8_t flags;
  uint16_t unused;
  uint32_t place;  // of a sample its number, of kSpawn and kJoin the thread's place in the table
  uint32_t old_place;
  uint32_t tickets;  // since this thread's step before; of its first, since its first ticket
  uint64_t size;     // of a sample the bytes that were alive
  uint64_t count;    // or the alignment; of a sample the ticket
};
static_assert(sizeof(Step) == 32);

}  // namespace trace

#endif  // LOFT_TRACE_PLAN_H_
