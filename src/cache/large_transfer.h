// The transfer cache of large objects: what threads that only free them give up, for threads that
// allocate. One that fills buffers and one that drains them trade them by an atomic operation each,
// where each was two turns at two locks that all threads share.
//
// Any thread may call any function, at any time. There is no lock, and a fork finds each object in
// it or out of it.
#pragma once

#include <cstddef>

#include "space/large.h"

namespace loft::large_transfer {

// Takes an object in that the program has freed and nobody keeps. False if there is no room for one
// of its length.
bool put(Large* object);

// An object of as many granules as `bytes` takes, marked as kept; nullptr if there is none.
Large* take(size_t bytes);

// Gives all of them back to the spans.
void release_all();

// As above, those that were there at the last call. One thread at a time calls it. True if none is
// left.
bool release_idle();

size_t bytes();  // of all of them

}  // namespace loft::large_transfer
