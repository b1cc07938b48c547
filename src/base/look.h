// When a thread looks after what is due now and then. Every slow path counts down, in two
// instructions; the look itself is in runtime/background.h.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace loft {

// Slow paths between two looks of a thread. A look reads the clock, which costs as much as a slow
// path or two.
inline constexpr uint8_t kSlowPathsPerLook = 16;

extern LOFT_HIDDEN LOFT_TLS __thread uint8_t slow_paths_left;

// The slow path that the thread is in looks before it returns, or its next one does.
inline void look_soon() { slow_paths_left = 1; }

}  // namespace loft
