// The clock. It has a file of its own because the interleaving explorer in test/model replaces it:
// with the explorer's clock, runs repeat exactly.
#include <time.h>

#include "os/calls.h"
#include "os/os.h"

namespace loft::os {

uint64_t now_ns() {
  struct timespec now;
  call_clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace loft::os
