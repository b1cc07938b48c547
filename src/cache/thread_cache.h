// A thread's block: its cache of free objects, the open batches of objects that it freed for other
// heaps, and its outbox. It belongs to its own thread, or to the holder of the lock of the
// processor whose block it is (cache/percpu.h). So nothing here is locked, and only counters, the
// limits of bins and the tables that name bins are atomic: other threads touch these. A thread that
// never allocates has no heap. One that never frees for other heaps touches no batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/bound.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "cache/profile.h"
#include "heap/large.h"
#include "remote/outbox.h"
#include "slab/geometry.h"
#include "space/pagemap.h"

namespace loft {

// A bin: a stack of free objects of one class. It is an array of pointers, so a pop never waits for
// an object's cache line. The slot below the first object is null, so one load both pops and
// detects the empty stack.
//
// What a bin holds is told by its top alone: the objects from there down to the null slot. So the
// child of a fork finds the objects of a thread that it does not have, wherever that thread was
// (bins::inherit). This class sees to the order that makes this true: a slot is written before it
// counts, and an array is complete before the top points into it, and until the top has left it.
class Bin {
 public:
  constexpr Bin() = default;
  constexpr Bin(void** top, void** limit) : top_(top), limit_(limit) {}

  // The last object pushed, or the null slot. Others may peek at it.
  void** const& top() const { return top_; }

  void push(void* p) {
    top_[1] = p;
    compiler_fence();
    ++top_;  // adds in memory: one instruction less than storing the new top
  }
  void* pop() { return *top_--; }
  // The same, for a caller that has read top() and the object there.
  void pop_from(void** top) { top_ = top - 1; }

  // Another number of objects, or another array.
  void set_top(void** top) {
    compiler_fence();
    top_ = top;
    compiler_fence();
  }

  // The highest slot that a push may fill; the null slot while the bin is watched, and nullptr
  // where the next push is asked to look. Relaxed: another thread may ask, which only leads to a
  // slow path. If the bin's own thread sets the limit at that moment, the request is lost.
  void** limit() const { return __atomic_load_n(&limit_, __ATOMIC_RELAXED); }
  void set_limit(void** limit) { __atomic_store_n(&limit_, limit, __ATOMIC_RELAXED); }
  void ask() { set_limit(nullptr); }
  bool is_asked() const { return limit() == nullptr; }

  // Whether a push takes the slow path.
  LOFT_ALWAYS_INLINE bool is_full() const { return reaches(top_, limit_); }

  // For sequences, by which a processor's stacks change (cache/percpu.h). They know where the two
  // lie.
  void*** top_word() { return &top_; }
  void*** limit_word() { return &limit_; }

 private:
  void** top_{};
  void** limit_{};
};

class Heap;
struct HeapCounters;
class MediumWord;
struct Processor;
struct ThreadCache;
namespace hardened {
struct Quarantine;  // hardened/quarantine.h
}

// Objects whose cache lines no two threads can both write. Larger objects are few per slab and per
// bin; keeping them would keep slabs from becoming free.
constexpr bool is_tradable(SizeClass c) { return fills_cache_lines(c) && class_size(c) <= 1024; }

// Detects threads that trade: that free each other's objects all the time, as threads that share a
// table or a queue do. An object that is sent home then soon comes back through another thread, at
// the cost of two messages and two refills. The freeing thread may as well hand it out itself.
// Where objects move one way only, the freeing thread must send them home: its bins need the room
// for its own objects, which it frees on the fast path.
//
// How many of the thread's own objects come home meanwhile tells the two cases apart. For one
// window, a thread keeps nothing. If enough of its own come home in it, it keeps others' objects
// for kKeeping windows and then tests again. (While others keep, fewer come home to a testing
// thread: at any time, most trading threads keep.) The first window only sets the baseline, because
// the heap's counters include an earlier thread's objects. So a thread that frees fewer than two
// windows of others' objects never keeps any.
//
// One thread's state. Initially all zero.
class Trade {
 public:
  static constexpr uint32_t kWindow = 1 << 14;  // tradable objects freed without an open batch
  static constexpr uint32_t kEnough = kWindow / 4;
  static constexpr uint32_t kKeeping = 15;  // windows after a window that received enough

  // Counts one such object that the thread freed. True if the thread should keep it. `own`: the
  // counters of its heap.
  bool keeps(const HeapCounters& own) {
    if (LOFT_UNLIKELY(++seen_ == kWindow)) end_window(own);
    return keeping_ != 0;
  }

 private:
  void end_window(const HeapCounters& own);

  uint32_t seen_;     // in this window
  uint16_t keeping_;  // windows left
  bool begun_;        // a window has ended
  size_t received_;   // tradable objects that had come home when the window began
};

static_assert(sizeof(Bin) == kBinBytes && std::is_standard_layout_v<Bin>);

// The null slot of every bin without an array. Never written.
extern LOFT_HIDDEN void* no_objects[1];
inline constexpr Bin kEmptyBin{no_objects, no_objects};

enum class SlowEvent : uint8_t { kNone, kRefill, kFlush };

inline constexpr size_t kMostSlots = 1024;  // in a bin's array, the null slot included

struct BinState {
  void** slots;       // capacity + 1 slots; slots[0] is null. nullptr while the capacity is zero
  uint16_t capacity;  // 2^k - 1: the array then fills whole cache lines
  uint16_t repeat;    // objects of the next refill. 0: bins::plan_refill says, as beside a depot
  SlowEvent last;
  uint8_t streak;          // refills since the last flush, saturating
  uint8_t watched_pushes;  // so far, in this array and the block's earlier ones
  void** seen_at;          // the value of `top` at the last review
  void** depot;            // full arrays beside this one (cache/arrays.h)
  uint16_t stashed;        // arrays in the depot
  uint16_t most_stashed;   // the limit on `stashed`; doubles like the capacity
  uint16_t least_stashed;  // the minimum of `stashed` since the last review
};

// Who owns the heap of a block. Chosen where the block gets its heap. The slow paths of malloc and
// free take their parts from it (malloc/policy.h).
enum class Mode : uint8_t {
  kUnset,       // a block without a heap, and the stand-in, empty_cache
  kThreads,     // a thread's block: owner=thread, owner=shared
  kProcessors,  // owner=cpu: a processor's block
};

inline constexpr unsigned kBatchWays = Profile::kBatchWays;
inline constexpr unsigned kBatchSets = Profile::kBatchSets;
inline constexpr unsigned kBatches = kBatchWays * kBatchSets;
static_assert(kBatchWays - 1 <= 1 && is_power_of_two(kBatchSets));

// Sizes beyond the table of malloc's fast path go by steps. Class sizes from kTableMax on are at
// least kTableMax / 4 apart.
inline constexpr size_t kStepBytes = kTableMax / 4;
inline constexpr size_t kSteps = kSmallMax / kStepBytes;
constexpr size_t step_of(size_t size) { return (size - 1) / kStepBytes; }
constexpr SizeClass class_of_step(size_t step) { return class_of((step + 1) * kStepBytes); }
constexpr bool steps_are_exact() {
  for (size_t size = kTableMax + 1; size <= kSmallMax; ++size) {
    if (class_of_step(step_of(size)) != class_of(size)) return false;
  }
  return true;
}
static_assert(steps_are_exact());

// One bit per slot.
using BatchSlots = std::conditional_t<kBatches <= 16, uint16_t, uint32_t>;
static_assert(kBatches <= 8 * sizeof(BatchSlots));

// Multiplicative hash. Slabs are numbered in order of creation, and neighbours must not crowd one
// set.
inline constexpr uint32_t kBatchHash = 0x9E3779B1u;
inline constexpr uint32_t kNoSlab = ~uint32_t{0};
constexpr size_t batch_set(uint32_t slab_index) {
  return size_t{slab_index * kBatchHash} >> (32 - highest_bit(kBatchSets));
}

// An open batch: freed objects of one slab of another heap, as a bitmap like the slab's own.
// Invariant: count() == sum of count_bits(words[w]), and the batch has a key exactly while that is
// not 0. The slab cannot be released meanwhile, because the thread holds objects of it.
struct Batch {
  uintptr_t base;
  uint64_t inverse;
  uint64_t start_limit;  // of the class (starts_in)
  uint32_t left;         // objects that still fit before the batch is sent
  uint32_t capacity;
  uint32_t before;  // count() when the other batch of the set was opened
  HeapId owner;
  alignas(64) uint64_t words[kMaxWords];

  // Pads the size to a power of two, so that a shift locates a batch. The pages cost nothing until
  // they are touched. Sixteen headers 1 KiB apart still fit the ways of a first-level cache.
  uint8_t padding[1024 - 64 - kMaxWords * 8];

  uint32_t count() const { return capacity - left; }
  Gathered gathered() const { return {count(), before}; }
};

// Written by the thread, read by any thread. Except for the counters of a present state, counting
// continues when the block passes to the next thread, so sums over all blocks are right without a
// lock.
struct ThreadCounters {
  Counter flushes;
  Counter checked_frees;  // the first frees into a bin
  Counter bins_grown;
  Counter bins_released;                // unused bins
  Counter batches_sent;                 // single objects included
  Counter batches_evicted;              // of these, the batches that were not full
  Counter batch_objects[kSizeClasses];  // objects sent
  Counter batch_messages;
  Counter posts;
  Counter turnarounds;  // other heaps' objects that the thread kept (should_keep)
  size_t medium_hits;   // a plain word: others peek at it
  Counter medium_misses;
  Counter medium_kept_bytes;  // now
  Counter medium_sent;        // bytes
  Counter net_bytes;          // of the thread that has the block; see stats/net.h
  Counter emptied;            // times that the idle caches were emptied
};

// Invariants: where pages[i] is not 0, kept[i] is a medium object of so many, marked as kept;
// counters.medium_kept_bytes is the sum of these. See cache/medium_cache.h.
inline constexpr unsigned kMediumSlots = 16;  // base/bits.h searches as many
struct MediumCache {
  struct Kept {
    void* at;
    MediumWord* word;
  };
  void* recent[2];  // the array of ThreadCache::recent: a null slot, and one for an object
  Kept kept[kMediumSlots];
  uint16_t pages[kMediumSlots];  // 0 in an empty slot
  uint16_t used;    // a bit for each slot from which an object was taken since the last review
  uint8_t last;     // the slot filled last; the next one is emptied first
  uint8_t credit;   // objects of other heaps that may still be kept: one for each allocation that
                    // came here, up to kMediumSlots
  uint8_t watched;  // frees that were checked at once
};

// A block starts as zeroed memory. set_up writes only the nonzero fields, so the pages of the
// batches stay untouched until first use. The fast paths of allocate.h rely on the first fields.
struct alignas(64) ThreadCache {
  HeapId owner{};  // id of `heap`, or kNeverOwner
  Mode mode{};
  uint8_t refills{};        // counts to the next look at what is due; wraps around
  uint8_t review_next{};    // the size class to review next
  uint32_t fresh_seen{};    // the heap's fresh_slabs (modulo 2^32) at the last look
  Heap* heap{};             // nullptr until the thread first allocates
  size_t capacity_bytes{};  // of all arrays, stashed ones included; see cache_bytes
  ThreadCache* next{};      // links in the list of running, warm or unused blocks;
  ThreadCache* prev{};      // guarded by the lock in lifecycle.cc
  ThreadCache* older{};     // the block made before this one; never changes
  Processor* processor{};   // contains this block; nullptr for a thread's. Never changes

  alignas(64) Bin recent;  // of one medium object of the thread's own (cache/medium_cache.h)
  Bin bins[kSizeClasses]{};
  // The offset of the bin that malloc pops from, by size up to kTableMax, and by steps beyond.
  // While a profile is taken, other threads turn these to the bins in `metered`, and back
  // (sampling/meter.h).
  uint16_t bin_of[kTableMax + 1]{};
  uint16_t bin_of_step[kSteps]{};
  Bin metered[kSizeClasses]{};
  void** metered_slots{};  // of all these bins; nullptr until the first profile
  uint64_t samples_due{};  // a bit for each class of which the next object is a sample
  size_t counted_bytes{};  // by pool (cache/arrays.h)

  // The batch cache (ISMM'24 2): the slab of each batch, by metadata index. Each slab has one set,
  // whose slots are kBatchSets apart.
  alignas(64) uint32_t batch_keys[kBatches]{};
  uint8_t batch_classes[kBatches]{};
  BatchSlots open_batches{};  // the slots with a key
  uint8_t misses{};           // frees for slabs without a batch whose set was full
  uint32_t missed_slab{};     // the slab of the last free without an open batch
  uint32_t untold_bytes{};    // sent to other heaps since it last told space/unused.h
  Trade trade{};

  BinState states[kSizeClasses]{};
  void** spare_arrays{};  // empty arrays of kMostSlots slots each
  ThreadCounters counters{};
  MediumCache medium{};
  large::Descriptors spare_large{};
  bool has_guests{};                   // guests keep objects in the block, or did (cache/guest.h)
  hardened::Quarantine* quarantine{};  // nullptr until first needed; then stays with the block
  Outbox outbox{};

  constexpr ThreadCache() { set_up(); }

  constexpr void set_up() {
    owner = kNeverOwner;
    clear_keys();
    recent = kEmptyBin;
    for (Bin& bin : bins) bin = kEmptyBin;
    for (Bin& bin : metered) bin = kEmptyBin;
    for (size_t size = 0; size <= kTableMax; ++size) {
      bin_of[size] = bin_offset(class_of(most<size_t>(size, 1)));
    }
    for (size_t step = 0; step < kSteps; ++step) {
      bin_of_step[step] = bin_offset(class_of_step(step));
    }
  }

  // kBatches of them follow every block except the stand-in, which has no key.
  Batch* batches() { return reinterpret_cast<Batch*>(this + 1); }
  const Batch* batches() const { return reinterpret_cast<const Batch*>(this + 1); }

  Bin* bin_at(size_t offset) {
    return reinterpret_cast<Bin*>(reinterpret_cast<char*>(this) + offset);
  }

  // Discards the objects collected for other heaps. They count as sent and never arrive.
  void forget_batches() {
    for (unsigned open = open_batches; open != 0; open &= open - 1) {
      const size_t slot = lowest_bit(open);
      counters.batch_objects[batch_classes[slot]].add(batches()[slot].count());
    }
    clear_keys();
    open_batches = 0;
    outbox = Outbox{};
    for (size_t slot = 0; slot < kBatches; ++slot) {
      // A batch that was never opened is skipped: its pages stay untouched.
      if (batches()[slot].inverse != 0) batches()[slot] = Batch{};
    }
  }

 private:
  constexpr void clear_keys() {
    for (uint32_t& key : batch_keys) key = kNoSlab;
  }
};
static_assert(sizeof(Batch) == 1024);
static_assert(offsetof(ThreadCache, recent) == kMedium &&
              offsetof(ThreadCache, bins) == kFirstBinOffset);

inline constexpr size_t kBatchBytes = kBatches * sizeof(Batch);  // after each block

// The calling thread's block: the stand-in before its first call, after its end, and under
// owner=cpu. The stand-in has only empty bins without arrays and an owner that matches no heap, so
// each call takes its slow path. No fast path tests whether a thread is set up or has ended.
extern LOFT_HIDDEN LOFT_TLS __thread ThreadCache* self;
extern LOFT_HIDDEN ThreadCache empty_cache;  // the stand-in

LOFT_ALWAYS_INLINE ThreadCache* this_thread() { return self; }

// All blocks ever made, from the newest on through `older`. Blocks are reused and never freed, so
// any thread may walk the list without a lock. A block is added once, when it is set up.
void add_cache(ThreadCache* block);
ThreadCache* newest_cache();

}  // namespace loft
