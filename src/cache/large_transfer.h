// The transfer cache of large objects: what threads that only free them give up, for threads that
// allocate. One that fills buffers and one that drains them trade them by an atomic operation each,
// where each was two turns at two locks that all threads share.
//
// Any thread may call any function, at any time, and there is no lock. Of what somebody moves just
// as the process forks, the child has at most lost an object.
#pragma once

#include <cstddef>

#include "large/large.h"

namespace loft::large_transfer {

// Takes an object in that the program has freed and nobody keeps. False if there is no room for one
// of its length: of each number of granules up to 16 there are eight at most, and one MiB. Nor is
// there for one that is longer than what free spans may keep (`dirty_bytes`).
bool put(Large* object);

// An object of as many granules as `bytes` takes, marked as kept; nullptr if there is none.
Large* take(size_t bytes);

// Gives all of them back to the spans. True if there were any.
bool release_all();

// As above, those that were there at the last call. True if none is left.
bool release_idle();

size_t bytes();  // of all of them

}  // namespace loft::large_transfer
