// The frontier of the window: granules at and above it were never handed out. For space/span.cc
// alone, under its lock, but for end().
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::frontier {

// Once the window is open.
void begin();

// Any thread may ask, without the lock.
uintptr_t end();

// Moves the frontier by `bytes`. Where another mapping is in the way, it begins again behind that,
// unless `next_to_last`. Returns where the new bytes begin; 0 without memory.
uintptr_t advance(size_t bytes, bool next_to_last);

}  // namespace loft::frontier
