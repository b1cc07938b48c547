// The slow side of the batch cache (ISMM'24 2 and 3): opens a batch for a slab that has none, and
// sends batches.
#pragma once

#include "cache/thread_cache.h"
#include "space/pagemap.h"

namespace loft::batch_cache {

// Adds an object of another heap. The slab need not have an open batch. If its set is full, the
// object goes as a record of its own, or the profile selects a batch to evict.
void add(ThreadCache* thread, void* p, Entry entry);

// Moves one batch to the outbox. Posts the outbox once it holds enough bytes.
void send(ThreadCache* thread, size_t slot);

// Sends all objects that the thread holds for other heaps.
void send_all(ThreadCache* thread);

// Sends a medium object, which the caller has marked as kept, to its heap.
void send_medium(ThreadCache* thread, void* p);
// The same without a block.
void send_single_medium(void* p);
size_t medium_sent_singly();  // bytes so far

// Sends one object at once, for a thread that has no block.
void send_single(void* p, Entry entry);
// The same for a thread whose bin could not take the object.
void send_single(ThreadCache* thread, void* p, Entry entry);
size_t sent_singly(SizeClass size_class);  // objects so far

// Adds the objects in open batches to objects[class]. Reads beside the running thread, so the
// counts are approximate.
void count_open(const ThreadCache* thread, size_t* objects);

}  // namespace loft::batch_cache
