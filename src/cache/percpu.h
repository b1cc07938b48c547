// The policy owner=cpu: each processor has a heap and a block like a thread's; threads hold
// nothing. Cache memory then grows with the number of processors and not with the number of
// threads.
//
// malloc and free use restartable sequences (os/restartable.h) on the current processor's block, to
// pop from and push onto stacks that stand in for its bins. A slow path takes the block's lock and
// closes the stack of each bin that it needs. Every sequence on a closed stack fails, and its
// caller comes to the same lock. So the lock's holder owns these bins as a thread owns its own,
// even if it is preempted or moves to another processor. At its end, the slow path opens the stacks
// again. Where the system has no restartable sequences, all stacks stay closed and each call is a
// slow path under the lock.
//
// Lock order: the lock for making a block, a block's lock, then the locks of lifecycle and heap/.
// Only whoever takes all locks (prepare_fork) waits for a second block's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/idle.h"
#include "base/peek.h"
#include "cache/thread_cache.h"
#include "os/lock.h"
#include "os/restartable.h"
#include "space/pagemap.h"

namespace loft {

struct Guest;

inline constexpr SizeClass kForeign = kSizeClasses;  // the stack after those of the bins
inline constexpr unsigned kStacks = kSizeClasses + 1;
inline constexpr uint64_t kAllStacks = (uint64_t{1} << kStacks) - 1;

// A processor's block. The sequences read its first lines. Its stacks are changed by sequences on
// the processor and by the lock's holder, as os/restartable.h describes.
struct alignas(64) Processor {
  HeapId owner = kNeverOwner;  // the heap's id; never changes
  bool emptied = false;        // all stacks are empty and closed. Under the lock
  unsigned number = 0;         // the processor's number

  // Each class has a stack that stands in for its bin: the same array, top and limit. A stack is
  // closed while its bin has no array or the lock's holder works on it. The last stack collects
  // objects of other heaps, of any class, until a transfer into batches pays.
  alignas(64) Bin full;  // always, and empty: free finds it for the processor's own medium objects,
                         // and malloc for all while a profile is taken
  Bin stacks[kStacks]{};

  os::Lock lock;
  uint64_t held = 0;  // one bit per stack that the lock's holder closed or that was never opened
  // The tops of stacks that were closed when the system refused a fence; a sequence may have been
  // committing at that moment. Valid only while the stack is closed. Under the lock.
  void** left_closed[kStacks]{};
  void** foreign = nullptr;      // the array of the last stack; slot 0 is null
  unsigned foreign_frees = 0;    // before that stack had an array; each was checked
  Idle activity{};               // of all its stacks and caches
  Processor* earlier = nullptr;  // the block made before this one; never changes
  Counter fences;                // fences for closing stacks from another processor

  // The state for slow paths. The `bins` entry of a class that is not held is out of date: it is as
  // the last holder left it.
  ThreadCache thread;
};
static_assert(offsetof(Processor, owner) == 0 && offsetof(Processor, full) == kMedium &&
              offsetof(Processor, stacks) == kFirstBinOffset);
static_assert(offsetof(Processor, thread) + sizeof(ThreadCache) ==
              sizeof(Processor));  // its batches follow
static_assert(kStacks <= 64);

namespace percpu {

// Offsets in a block, used by the sequences.
inline constexpr size_t kForeignStack = kFirstBinOffset + kForeign * kBinBytes;
inline constexpr size_t kTable = offsetof(Processor, thread) + offsetof(ThreadCache, bin_of);

// Whether processors are the owners. Decided before the program has a second thread.
extern LOFT_HIDDEN bool are_owners;
inline bool in_use() { return are_owners; }

// `prepare` runs when the library is loaded. It fails, and the owners stay as they are, if
// (a) memory runs out;
// (b) the C library has no area for the system's words of a thread; or
// (c) processor numbers are unknown or too many for a table.
//
// `begin` makes processors the owners. Before it, the calling thread gives up its block.
bool prepare();
void begin();

// Locks and returns the block of the caller's processor, or of another one if the caller is moved
// repeatedly. nullptr if there is no memory for a block; leave must then not be called.
ThreadCache* enter();
void leave(Processor* processor);

// `hold` makes the bin of a class the lock holder's until leave. False only if the system refuses a
// fence; the bin is then not the holder's. `own` does nothing for a thread's block.
bool hold(Processor* processor, SizeClass stack);
inline bool own(ThreadCache* thread, SizeClass size_class) {
  return LOFT_LIKELY(thread->processor == nullptr) || hold(thread->processor, size_class);
}

// As hold, for all stacks of `wanted` (a bit for each), from any processor, with one fence.
bool close_from_afar(Processor* processor, uint64_t wanted);

// The block made last. Each names the one made before it.
extern LOFT_HIDDEN Atomic<Processor*> newest;
template <class Visit>
void for_each(Visit visit) {
  // Acquire pairs with the release in make: the block is set up.
  for (Processor* processor = newest.load(memory_order_acquire); processor != nullptr;
       processor = processor->earlier) {
    visit(processor);
  }
}

// Returns all objects of all bins. The bins become the lock holder's.
void flush_all(Processor* processor);

// Adds an object of another heap to a batch, together with all objects of the last stack.
void free_foreign(Processor* processor, void* p, Entry entry);

// Looks at all blocks once, so many ticks after the last look, and empties those without a change
// for several looks. True if all are empty and need no further work.
bool look(unsigned ticks);

// Empties all blocks. Returns the bytes of holes that were purged.
size_t empty_all();
// Empties the blocks that no thread holds. The caller may hold one.
void empty_others();

// top: the top of a class's objects in the block. count_foreign: adds the objects of the last stack
// to objects[class]. All read beside running threads, for statistics.
void** top(const Processor* processor, SizeClass size_class);
inline void** top_of(const ThreadCache* thread, SizeClass size_class) {
  return thread->processor != nullptr ? top(thread->processor, size_class)
                                      : peek(thread->bins[size_class].top());
}
void count_foreign(const Processor* processor, size_t* objects);
// The objects of the last stack: [first, end).
struct Foreign {
  void** first;
  void** end;
};
Foreign foreign_of(const Processor* processor);

// Blocks made, fences, and lock acquisitions and waits so far.
struct ProcessorTotals {
  size_t blocks, fences, locks, waits;
};
ProcessorTotals totals();

// Between the two calls, no thread holds a block or makes one.
void prepare_fork();
void finish_fork(bool child);

// What the core calls.
extern LOFT_HIDDEN const Guest guest;

}  // namespace percpu
}  // namespace loft
