// The frontier of the window: granules at and above it were never handed out. Callers hold the lock
// of space/span.cc, except for end().
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::frontier {

// Called once, after the window is open.
void begin();

// Any thread, without the lock.
uintptr_t end();

// Advances the frontier by `bytes` and returns where the new bytes begin; 0 without memory. If
// another mapping is in the way, the frontier continues behind it. With `next_to_last`, the new
// bytes must follow the old frontier: after such a jump the result is 0.
uintptr_t advance(size_t bytes, bool next_to_last);

}  // namespace loft::frontier
