// The policy owner=core: a block, the same as a thread's, and a heap for each processor; threads
// hold nothing. What a program keeps in caches then grows with its processors and not with its
// threads.
//
// malloc and free work on the block of the processor that they run on, by restartable sequences
// (os/restartable.h): these pop from and push onto stacks that stand in for the block's bins. A
// slow path takes the block's lock, closes the stack of each bin that it needs, so that every
// sequence on it fails, and then has that bin as a thread has its own; at its end it opens the
// stacks again. Whoever finds a stack closed comes to the same lock. So the lock's holder may be
// preempted, or go to another processor, at any moment: what it has closed stays its own.
//
// Where the system has no such sequences, all stacks are closed for ever, and each call is a slow
// path under the lock.
//
// Locks: that for making a block comes first, then a block's, then lifecycle's and those of heap/.
// Nobody waits for a second block's but a fork.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/peek.h"
#include "cache/thread.h"
#include "heap/heap.h"
#include "os/lock.h"
#include "os/restartable.h"
#include "space/pagemap.h"

namespace loft {

inline constexpr SizeClass kForeign = kSizeClasses;  // the stack beside those of the bins
inline constexpr unsigned kStacks = kSizeClasses + 1;
inline constexpr uint64_t kAllStacks = (uint64_t{1} << kStacks) - 1;

// The block of a processor. Its first lines are what the sequences read; all of these are changed
// by sequences on the processor, and by the lock's holder as os/restartable.h says.
struct alignas(64) Core {
  HeapId owner = kNeverOwner;  // of the heap; never changes
  bool emptied = false;        // nothing is in the stacks, which are all closed. Under the lock
  unsigned number = 0;         // the processor's

  // For each class the stack that stands in for the bin: the same array, the same top and limit. A
  // bin without an array, and each that the lock's holder works on, has a closed stack. The last
  // one takes objects of other heaps, of any class, until they are worth the way into batches.
  alignas(64) Bin stacks[kStacks]{};

  os::Lock lock;
  uint64_t held = 0;  // a bit for each stack that the lock's holder has closed, or nobody opened
  // Where the tops were of stacks that were closed when the system refused a fence, as a sequence
  // may just have been committing. Means something while the stack is closed. Under the lock.
  void** left_closed[kStacks]{};
  void** foreign = nullptr;    // the array of the last stack; slot 0 is null
  unsigned foreign_frees = 0;  // before that stack had an array; each was checked
  uint32_t looks = 0;          // in a row at which nothing had moved
  uint64_t activity = 0;       // at the last of them
  Core* earlier = nullptr;     // the block made before this one; never changes
  Counter fences;              // times that stacks were closed from another processor

  // What slow paths work on. Of a class that is not held, its `bins` are as they were last.
  Thread thread;
};
static_assert(offsetof(Core, owner) == 0 && offsetof(Core, stacks) == kFirstBinOffset);
static_assert(offsetof(Core, thread) + sizeof(Thread) == sizeof(Core));  // its batches follow
static_assert(kStacks <= 64);

namespace core {

// Offsets in a block, for the sequences.
inline constexpr size_t kForeignStack = kFirstBinOffset + kForeign * kBinBytes;
inline constexpr size_t kTable = offsetof(Core, thread) + offsetof(Thread, bin_of);

// Whether processors are the owners. Decided before the program has a second thread.
inline bool in_use() { return pagemap.core_limit.get() != 0; }

// When the library is loaded: makes ready for processors to be the owners. False, and all as it
// was, without memory, or where threads have no place for what the system tells them. They are the
// owners from begin on, before which the calling thread gives up its block.
bool prepare();
void begin();

// The block of the processor that the caller is on, under its lock; of another one if the caller is
// moved again and again. nullptr without memory for a block: then there is nothing to leave.
Thread* enter();
void leave(Core* core);

// Makes the bin of a class the lock holder's until leave. False, and it is not, only where the
// system refuses a fence. Nothing to do for a thread's block.
bool hold(Core* core, SizeClass stack);
inline bool own(Thread* thread, SizeClass size_class) {
  return LOFT_LIKELY(thread->core == nullptr) || hold(thread->core, size_class);
}

// Gives all objects of all bins back, which become the lock holder's.
void flush_all(Core* core);

// Frees an object of another heap, by way of a batch, together with all that the last stack has.
void free_foreign(Core* core, void* p, Entry entry);

// One look at all blocks: those in which nothing moved for some looks are emptied. True if all are
// empty and nothing is left to do for them.
bool look();

// Empties all blocks. The bytes of holes that were given back.
size_t empty_all();
// Empties those that nobody holds; the caller may hold one.
void empty_others();

// Where the objects of a class in the block end, and the objects of each class in the last stack,
// which are added; read beside everything that runs, for statistics.
void** top(const Core* core, SizeClass size_class);
inline void** top_of(const Thread* thread, SizeClass size_class) {
  return thread->core != nullptr ? top(thread->core, size_class)
                                 : peek(thread->bins[size_class].top);
}
void count_foreign(const Core* core, unsigned long* objects);

// Blocks made, and fences, so far.
struct Totals {
  unsigned long blocks, fences, locks, waits;
};
Totals totals();

// Nobody holds a block, nor makes one, between the two.
void prepare_fork();
void finish_fork(bool child);

}  // namespace core
}  // namespace loft
