// One round of the soak: threads that hand objects to and fro while the process forks, purges,
// meets limits and changes options. At its end every byte must be accounted for.
#pragma once

#include <cstdint>

namespace soak {

// What the round with this seed does is the same every time, but for how its threads interleave.
// Returns the number of faults, each of which it has printed.
unsigned run_round(uint64_t seed);

}  // namespace soak
