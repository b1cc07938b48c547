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

// Sends the `count` objects first..last, a list as the slab's own are, to the heap of the slab,
// whose thread is another one. The slab may be gone when this returns.
void send(Slab* slab, Object* first, Object* last, uint32_t count, Tally& tally);

inline void send_alone(Slab* slab, Object* p, Tally& tally) {
  slab->link(p, nullptr);
  send(slab, p, p, 1, tally);
}

}  // namespace engine::pages
