// The slow side of a thread's bins: growth, and flushes into the slabs.
//
// A bin starts small. It doubles (a) when refills and flushes alternate, because the cache is too
// small, or (b) when refills come in a row: a stream of allocations runs faster with fewer, larger
// refills. Budgets in bytes for the class and for the thread limit the growth. A bin whose array
// has the maximum length stashes full arrays in its depot. A later slow path reviews each bin; an
// unused bin returns its objects and starts over.
#pragma once

#include "cache/thread_cache.h"
#include "space/pagemap.h"

namespace loft {

// The call that makes an object, for modes that check which call frees it.
enum class Maker : uint8_t { kMalloc, kNew, kNewArray, kNewAligned, kNewArrayAligned };

// A malloc request for a small object, in one register.
struct ObjectRequest {
  uint8_t size_class;     // whose size is a multiple of the alignment
  uint8_t alignment_log;  // of the alignment asked for, kAlignmentLog at least
  Maker maker;
  uint32_t asked;  // bytes
};
static_assert(sizeof(ObjectRequest) == sizeof(uint64_t));
constexpr ObjectRequest request_of(SizeClass c, size_t asked, Maker maker = Maker::kMalloc) {
  return {static_cast<uint8_t>(c), kAlignmentLog, maker, static_cast<uint32_t>(asked)};
}

namespace bins {

// Every bin below belongs to the caller. A thread's bins always do. A processor's bin does while
// its lock is held and the bin's stack is closed (percpu::own).

// Refills an empty bin and pops one object. nullptr without memory. The thread must have a heap.
void* refill(ThreadCache* thread, ObjectRequest request);

// Takes one object directly from a heap, for a caller that shares the heap or whose bin has no
// array.
void* take_one(Heap* heap, ObjectRequest request);
// The same of one that reads as zero. nullptr also if there is none at hand.
void* take_zero(Heap* heap, ObjectRequest request);
// Puts one object back, for a thread that does not own the heap. False if the object is another
// heap's, or the lock is held.
bool put_one(Heap* heap, SizeClass size_class, void* p);

// Pushes where the fast path cannot: the bin (a) is full, (b) has no array, (c) is watched, (d) is
// asked to look, or (e) got the same object last, which stops the program. Always true.
//
// A bin is watched for its first pushes, unless an earlier thread of the block has made them. Each
// is checked, so a program that frees an interior pointer or frees twice is caught at once even if
// it frees little, and the fast path pays nothing. A full bin that can neither grow nor stash its
// array returns its older half. A bin that gets no array passes the object to its slab.
bool push_slow(ThreadCache* thread, SizeClass size_class, void* p);

// Sends the next push into each of the thread's bins to the slow path, where the thread looks: it
// may come to no other for long. Any thread may ask, while the asked one cannot end.
void ask(ThreadCache* thread);

// Whether push_slow finds a free slot without growing, stashing or flushing.
inline bool has_space(const ThreadCache* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  return state.slots != nullptr && thread->bins[size_class].top() < state.slots + state.capacity;
}

// Returns all objects of one bin, or of all bins.
void flush_class(ThreadCache* thread, SizeClass size_class);
void flush_all(ThreadCache* thread);

// Reviews a bin. If its top is where the last review found it, the bin returns its objects and
// frees its array. A busy bin returns half of the depot arrays that it did not need. A busy bin
// whose top is there by chance pays one refill in some hundreds. `in_use` marks a bin under refill,
// whose top is always in the same place.
void review(ThreadCache* thread, SizeClass size_class, bool in_use);

// In the child of a fork, of a thread that the child does not have: returns what its bins and their
// depots hold to its heap, or adds it to batches, and leaves them as new. The thread may have been
// between any two stores, so of its bins nothing counts but the tops (cache/thread_cache.h). An
// array that was being exchanged is lost.
void inherit(ThreadCache* dead);

// The number of objects in a bin whose top is `top`. Reads beside the running thread, so the result
// is approximate.
unsigned held(const ThreadCache* thread, SizeClass size_class, void** top);

// Resets the bins, for the block's next thread or for its own thread before a wait. Frees all
// arrays. With keep_first_arrays, small first arrays stay unless memory is tight; every bin must
// then be empty.
void reset(ThreadCache* thread, bool keep_first_arrays);

}  // namespace bins

// Whether another heap's object should go into the thread's own bin, and not into a batch:
//   kTrade  threads trade such objects, and the bin has room, unless the slab comes twice in a row:
//           two objects are worth a batch;
//   kStall  its owner is stalled (heap/heap.h), whatever room it takes.
enum class Keep : uint8_t { kNo, kTrade, kStall };
Keep should_keep(ThreadCache* thread, SizeClass size_class, Entry entry);

}  // namespace loft
