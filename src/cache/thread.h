// What a thread holds: its cache of free objects, the open batches of objects it freed for other
// heaps, its outbox. Only its own thread touches it, or whoever holds the lock of the processor
// whose block it is (cpu/core.h). So nothing here is locked or atomic except the counters that
// others may read. A thread that never allocates has no heap; one that never frees for others never
// touches the pages of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "cache/profile.h"
#include "cache/trade.h"
#include "heap/heap.h"
#include "large/large.h"
#include "os/lock.h"
#include "remote/outbox.h"
#include "slab/geometry.h"

namespace loft {

struct Core;
struct Thread;
struct Magazines;  // room/magazines.h

// One stack of free objects, an array of pointers: popping never waits for an object's cache line.
// The slot below the first object is null, so that one load both pops and finds the stack empty.
struct Bin {
  void** top;    // the last object pushed, or the null slot
  void** limit;  // the highest slot that a push may fill; the null slot while each push is checked
};
static_assert(sizeof(Bin) == kBinBytes);

// The null slot of every bin that has no array; never written.
extern LOFT_HIDDEN void* no_objects[1];
inline constexpr Bin kEmptyBin{no_objects, no_objects};

enum class SlowEvent : uint8_t { kNone, kRefill, kFlush };

inline constexpr size_t kMostSlots = 1024;  // of a bin's array, with the null slot

struct BinState {
  void** slots;       // capacity + 1 of them, slots[0] is null; nullptr while the capacity is zero
  uint16_t capacity;  // 2^k - 1, so that the array fills whole cache lines
  SlowEvent last;
  uint8_t streak;          // refills since the last flush, saturating
  uint8_t watched_pushes;  // so far; of this array and the block's earlier ones
  void** seen_at;          // where the last review found `top`
  void** depot;            // full arrays beside this one (cache/depot.h)
  uint16_t stashed;        // how many
  uint16_t most_stashed;   // as many may be; doubles like the capacity
  uint16_t least_stashed;  // as many were all the time since the last review
};

inline constexpr unsigned kBatchWays = Profile::kBatchWays;
inline constexpr unsigned kBatchSets = Profile::kBatchSets;
inline constexpr unsigned kBatches = kBatchWays * kBatchSets;
static_assert(kBatchWays - 1 <= 1 && is_power_of_two(kBatchSets));

// A bit for each place.
using BatchPlaces = std::conditional_t<kBatches <= 16, uint16_t, uint32_t>;
static_assert(kBatches <= 8 * sizeof(BatchPlaces));

// Multiplicative hash: slabs are numbered in the order in which they were made, and neighbours must
// not crowd one set.
inline constexpr uint32_t kBatchHash = 0x9E3779B1u;
inline constexpr uint32_t kNoSlab = ~uint32_t{0};
constexpr size_t batch_set(uint32_t slab_index) {
  return size_t{slab_index * kBatchHash} >> (32 - highest_bit(kBatchSets));
}

// An open batch: objects of one slab of another heap, as a bitmap like the slab's own. Invariant:
// count() == sum of count_bits(words[w]), and the batch has a key exactly while that is not 0: then
// objects of the slab are in our hands and it cannot go away.
struct Batch {
  uintptr_t base;
  uint64_t inverse;
  uint64_t start_limit;  // an object's first byte leaves a remainder below this (is_start_in)
  uint32_t room;         // objects it still takes before it is sent
  uint32_t capacity;
  HeapId owner;
  alignas(64) uint64_t words[kMaxWords];

  // Rounds the size up to a power of two: reaching a batch is a shift. The pages cost nothing until
  // they are touched, and 16 headers 1 KiB apart still find their ways in a first-level cache.
  uint8_t padding[1024 - 64 - kMaxWords * 8];

  uint32_t count() const { return capacity - room; }
};

// Written by the thread; read by anybody. Those that tell no present state
// count on when the block goes to the next thread: sums over all blocks are right without a lock.
struct ThreadCounters {
  Counter flushes;
  Counter checked_frees;  // of a bin's first ones
  Counter bins_grown;
  Counter bins_released;                // because nobody used them
  Counter batches_sent;                 // single objects included
  Counter batches_evicted;              // of these, before they were full
  Counter batch_objects[kSizeClasses];  // sent
  Counter batch_messages;
  Counter posts;
  Counter turnarounds;
  Counter large_hits;
  Counter large_kept_bytes;  // now
  Counter emptied;           // times, because nobody used it
  Counter room_ready;        // refills for which a magazine was ready
  Counter room_late;         // and for which none was
  Counter room_returns;      // flushes that the room took
  Counter room_behind;       // and that it did not
  Counter room_cleared;      // objects that calloc took from it
};

// Invariant: each kept[i] is null or a large object marked as kept, of granules[i] granules;
// counters.large_kept_bytes is the sum of their lengths. cache/large_cache.cc.
inline constexpr unsigned kLargePlaces = 16;
struct LargeCache {
  Large* kept[kLargePlaces];
  uint8_t granules[kLargePlaces];  // 0 where nothing is kept
  large::Descriptors spare;
  unsigned last;    // the place that was filled or emptied last: if it is empty, filled next
  unsigned credit;  // how many more may be kept: what the thread allocated, up to kLargePlaces
  uint16_t used;    // a bit for each place that was, since the last review
};

// What was seen of a thread beside it (thread/idle.cc). Guarded by the lock in lifecycle.cc.
struct Idle {
  uint32_t looks;     // in a row at which nothing had moved
  uint64_t activity;  // at the last of them
};

// A block starts as zeroed memory, of which set_up fills in what is not zero: the pages of the
// batches stay untouched until they are needed. The fast paths of allocate.h rely on the first
// fields.
struct alignas(64) Thread {
  HeapId owner{};           // id of `heap`, or kNeverOwner
  uint8_t slow_events{};    // since the last review of a bin
  uint8_t review_next{};    // the size class whose bin comes next
  Heap* heap{};             // nullptr until the thread first allocates
  size_t capacity_bytes{};  // of its arrays, stashed ones and magazines included; see cache_bytes
  Thread* next{};           // in the list of all threads or of the unused ones; guarded by the
  Thread* prev{};           // lock in lifecycle.cc
  const Thread* older{};    // the block made before this one; never changes
  Core* core{};             // of which this is the block; nullptr for a thread's. Never changes

  alignas(64) Bin bins[kSizeClasses]{};
  uint16_t bin_of[kTableMax + 1]{};  // the offset of each size's bin

  // The batch cache (ISMM'24 2): which slab each of the batches is for, by metadata index. The
  // places of a set are kBatchSets apart; each slab has one set, so each place is reachable.
  alignas(64) uint32_t batch_keys[kBatches]{};
  uint8_t batch_classes[kBatches]{};
  BatchPlaces open_batches{};  // those that have a key
  uint8_t misses{};            // of slabs that had no batch, and whose set was full
  uint32_t missed_slab{};      // the last one that had no batch
  Trade trade{};

  BinState states[kSizeClasses]{};
  void** spare_arrays{};  // empty ones, of kMostSlots each
  Idle idle{};
  ThreadCounters counters{};
  LargeCache large{};
  Magazines* magazines{};  // nullptr until there is a use for some; the block's for ever
  Outbox outbox{};

  constexpr Thread() { set_up(); }

  constexpr void set_up() {
    owner = kNeverOwner;
    clear_keys();
    for (Bin& bin : bins) bin = kEmptyBin;
    for (size_t size = 0; size <= kTableMax; ++size) {
      bin_of[size] = bin_offset(class_of(most<size_t>(size, 1)));
    }
  }

  // kBatches of them, behind every block but the stand-in, which has no key.
  Batch* batches() { return reinterpret_cast<Batch*>(this + 1); }
  const Batch* batches() const { return reinterpret_cast<const Batch*>(this + 1); }

  Bin* bin_at(size_t offset) {
    return reinterpret_cast<Bin*>(reinterpret_cast<char*>(this) + offset);
  }

  // Gives up what is collected for other heaps: it counts as sent, and will never arrive.
  void forget_batches() {
    for (unsigned open = open_batches; open != 0; open &= open - 1) {
      const size_t place = lowest_bit(open);
      counters.batch_objects[batch_classes[place]].add(batches()[place].count());
    }
    clear_keys();
    open_batches = 0;
    outbox = Outbox{};
    for (size_t place = 0; place < kBatches; ++place) {
      // Never opened: its pages need not be touched.
      if (batches()[place].inverse != 0) batches()[place] = Batch{};
    }
  }

 private:
  constexpr void clear_keys() {
    for (uint32_t& key : batch_keys) key = kNoSlab;
  }
};
static_assert(sizeof(Batch) == 1024);
static_assert(offsetof(Thread, bins) == kFirstBinOffset);

inline constexpr size_t kBatchBytes = kBatches * sizeof(Batch);  // behind each block

// The current thread's block. A static stand-in, with every capacity zero and an owner that matches
// nothing, sends each call to its slow path: no fast path tests whether a thread is set up or gone.
extern LOFT_HIDDEN LOFT_TLS_INITIAL_EXEC __thread Thread* self;
extern LOFT_HIDDEN Thread stand_in;  // before its first call and after its end

LOFT_ALWAYS_INLINE Thread* this_thread() { return self; }

// Every block that was ever made, from the newest on by `older`. Blocks are used again and never
// given back, so anybody may walk along them without a lock. A block is added once, when it is set
// up.
void add_block(Thread* block);
const Thread* newest_block();

}  // namespace loft
