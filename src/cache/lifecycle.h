// A thread's block from its first call to its end, and what a fork does to the blocks of the
// threads that the child does not have.
#pragma once

#include "cache/thread.h"

namespace loft::lifecycle {

// The block of the calling thread, set up if this is its first call. nullptr for a thread whose
// destructors have run, or without memory: then the caller serves itself without a block.
Thread* attach();

// As above, and the thread has a heap. nullptr without memory or heap ids.
Thread* attach_heap();

// The heap that threads without a block share, under its lock. nullptr without memory.
Heap* shared_heap();

// Sums over the threads there are and have been.
struct Totals {
  unsigned long attached, started, exited, locks;
  unsigned long flushes, batches_sent, batch_objects, batch_messages, posts, turnarounds;
  unsigned long large_hits, large_kept_bytes;
};
Totals totals();

}  // namespace loft::lifecycle
