// The transfer cache of large objects: passes objects from threads that only free them to threads
// that allocate them. A thread that fills buffers and one that drains them pay one atomic operation
// each, instead of two turns at two locks that all threads share.
//
// Any thread may call any function at any time; there is no lock. A fork during a move loses at
// most that object in the child.
#pragma once

#include <cstddef>

#include "large/large.h"

namespace loft::large_transfer {

// Takes a freed object that no thread keeps. False if there is no room for its length: for each
// number of granules up to 16, the limits are eight objects and 1 MiB. False also for an object
// longer than the limit on free spans (`dirty_bytes`).
bool put(Large* object);

// Returns an object of the number of granules that `bytes` needs, marked as kept. nullptr if there
// is none.
Large* take(size_t bytes);

// Returns all objects to the spans. True if there were any.
bool release_all();

// Returns the objects that were already there at the last call. True if none is left.
bool release_idle();

size_t bytes();  // of all objects

}  // namespace loft::large_transfer
