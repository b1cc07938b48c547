// What the caches of all threads hold together, where a limit bounds it (limits::scarce_cached). A
// thread that waits keeps what it has: nobody else may take it out of its cache. So a cache grows
// only if all of them stay within the bound, and within its own share of that.
#pragma once

#include "cache/thread_cache.h"
#include "limits/limits.h"

namespace loft::pool {

LOFT_COLD bool claim(ThreadCache* thread, size_t more);

// Whether the thread's cache may grow by `more` bytes; they are counted then.
inline bool has_room(ThreadCache* thread, size_t more) {
  return LOFT_LIKELY(limits::cache_share() == limits::kNone) || claim(thread, more);
}

// The cache has become smaller.
LOFT_COLD void give_back(ThreadCache* thread);
inline void tell(ThreadCache* thread) {
  if (LOFT_UNLIKELY(thread->counted_bytes != 0)) give_back(thread);
}

// The cache is empty, or counts no longer.
void forget(ThreadCache* thread);

// In the child of a fork.
void forget_all();

}  // namespace loft::pool
