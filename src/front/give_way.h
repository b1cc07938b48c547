// For slow paths that found no memory.
#pragma once

#include "cache/thread.h"

namespace loft {

// Lets go of what nobody uses and may be in the way of what the thread wants, whether it has a
// block or not (nullptr).
void give_way(Thread* thread);

}  // namespace loft
