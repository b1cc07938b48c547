// For slow paths that found no memory.
#pragma once

#include "cache/thread_cache.h"

namespace loft {

// Frees unused memory that may be in the way of the thread's allocation. `thread` is nullptr for a
// thread without a block.
void reclaim(ThreadCache* thread);

}  // namespace loft
