// What a thread has allocated, less what it has freed. malloc and free do not count: the sum
// follows from what its heap and its caches count on their slow paths.
//
//   allocated - freed == taken from the heap - put back - sent to other heaps - held now
//
// `held` is what lies freed or ready in the bins, the depot, the batches and the cache of medium
// objects. The heap counts what is taken and put of its slabs (HeapCounters::net_bytes), the block
// all the rest (ThreadCounters::net_bytes): medium objects that are taken, put, sent or get another
// length, objects that are sent, large ones, and samples, which never come from a cache.
#pragma once

#include <cstddef>

namespace loft {

// Of the calling thread, in bytes of the places of its objects: 0 at its first call. False if it
// has no caches of its own (owner=cpu or shared).
bool read_net_bytes(ptrdiff_t* bytes);

}  // namespace loft
