// The large objects that a thread freed last, for its next allocations of the same length: such a
// pair takes no lock and no atomic operation, which a program that allocates and frees one buffer
// per request does all day. Only as many are kept as the thread has allocated itself: what one that
// only frees gives up goes on to others (cache/large_transfer.h).
#pragma once

#include "cache/thread.h"

namespace loft::large_cache {

// Longer ones are rare, and for them a lock is little beside the touching of their pages.
inline constexpr size_t kLongest = size_t{1} << 20;

// An object that was kept, for a request of `asked` bytes, which are at most kLongest; nullptr if
// there is none. Its contents are what they were. Counts the allocation either way.
void* take(Thread* thread, size_t asked);

// Keeps an object that the program gave up, for which an older one may have to go, or passes it on.
// False if it is too long or nobody has a use for it.
bool keep(Thread* thread, Large* object);

// Gives all that is kept back to the spans.
void release_all(Thread* thread);

// Gives back what was kept and not taken since the last call. Called every few dozen refills: an
// object that is kept saves one turn at a lock, which is worth its memory only where such objects
// come and go about as often as bins are refilled.
void review(Thread* thread);

}  // namespace loft::large_cache
