// Keeps the large objects that a thread freed last, for its next allocations of the same length.
// Such a pair of calls takes no lock and no atomic operation. A program that allocates and frees
// one buffer per request makes such pairs all day. A thread keeps at most as many objects as it has
// allocated. The objects of a thread that only frees go to other threads (cache/large_transfer.h).
#pragma once

#include "cache/thread.h"

namespace loft::large_cache {

// Longer objects are rare, and a lock costs little beside touching their pages.
inline constexpr size_t kLongest = size_t{1} << 20;

// Takes a kept object for a request of `asked` bytes, at most kLongest. nullptr if there is none.
// The contents are unchanged. Counts the allocation in either case.
void* take(Thread* thread, size_t asked);

// Keeps a freed object, possibly in place of an older one, or passes it to other threads. False if
// (a) memory is tight, (b) the object is too long, or (c) no thread needs it.
bool keep(Thread* thread, Large* object);

// Returns all kept objects to the spans.
void release_all(Thread* thread);

// In the child of a fork: the same of a thread that the child does not have. Descriptors that the
// thread had ready are lost.
void inherit(Thread* dead);

// Returns the objects of all places from which none was taken since the last call. Called every few
// dozen refills. A kept object saves one lock acquisition, which is worth its memory only if such
// objects come and go about as often as bins are refilled.
void review(Thread* thread);

}  // namespace loft::large_cache
