// The system calls made so far: os/posix.cc keeps the sums, and a system's own file counts.
#pragma once

namespace loft::os {

void count_map();
void count_discard();

}  // namespace loft::os
