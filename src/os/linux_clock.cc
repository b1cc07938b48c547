// The clock. A file of its own, so that the explorer of interleavings has one in which runs repeat.
#include <time.h>

#include "os/os.h"

namespace loft::os {

uint64_t now_ns() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace loft::os
