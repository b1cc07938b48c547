// The slow side of the batch cache (ISMM'24 2 and 3): a batch for a slab that has none open, and
// sending.
#pragma once

#include "cache/thread.h"
#include "space/pagemap.h"

namespace loft::batch_cache {

// Adds an object of another heap, whose batch may not be open. Where its set has no place for one
// more, the object goes alone, or the profile says which batch is sent.
void add(Thread* thread, void* p, Entry entry);

// Sends one batch to the outbox, and the outbox on its way once it holds enough.
void send(Thread* thread, size_t place);

// Sends everything that the thread holds for others.
void send_all(Thread* thread);

// Sends one object without a thread's block: for threads that have none any more.
void send_single(void* p, Entry entry);
unsigned long sent_singly(SizeClass size_class);  // objects, so far

// Adds the objects of each class in open batches to objects[class], read beside the running thread:
// about right.
void count_open(const Thread* thread, unsigned long* objects);

}  // namespace loft::batch_cache
