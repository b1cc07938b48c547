// Frees of objects of another heap, and their counts.
#pragma once

#include "base/atomic.h"
#include "pages/slab.h"

namespace engine::pages {

// Each has one writer: the thread of the heap.
struct Tally {
  loft::Counter frees_remote;
  loft::Counter messages;
  loft::Counter swaps;
  loft::Counter swap_retries;
  loft::Counter received;
  loft::Counter batches;
  loft::Counter batch_objects;
  loft::Counter evictions;
};

// Sends the objects first..last, linked as their slab's lists are, to the heap of the slab, whose
// thread is another one. The slab may be gone when this returns.
void send(Slab* slab, Object* first, Object* last, Tally& tally);

}  // namespace engine::pages
