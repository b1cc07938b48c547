// A heap: an owner of slabs and the inbox through which its objects come home. Its slow paths run
// under its own lock, which is mostly uncontended while one thread owns the heap, and which lets
// others drain it when that thread is gone, and take slabs over that it has too many of. Heaps are
// never destroyed: a thread that ends parks its heap, and the next thread adopts it. A message that
// arrives at a heap which is not its objects' owner is passed on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/list.h"
#include "base/size_class.h"
#include "heap/stall.h"
#include "os/lock.h"
#include "remote/directory.h"
#include "remote/inbox.h"
#include "remote/outbox.h"
#include "slab/counters.h"
#include "slab/holes.h"
#include "slab/slab.h"

namespace loft {

// Written under the heap's lock, read by anybody.
struct HeapCounters {
  ClassCounters classes[kSizeClasses];
  Counter refills;  // the sum over the classes
  Counter drains;
  Counter helped;  // other heaps that were drained for a refill of this one
  Counter messages_received;
  Counter forwards;
  Counter posts;
  Counter slabs_taken_over;
  Counter hole_bytes;   // given back so far
  Counter spare_bytes;  // of spare slabs, now

  // What slabs had when they were taken over from other heaps, less what those had that others took
  // (modulo 2^64). The counters of a class do not move with a slab: so their sums over all heaps do
  // not change with it.
  struct Adopted {
    Counter slab_bytes, allocated_bytes, charged_pages;
  };
  Adopted adopted;

  // Over all classes, of the heap's own slabs. Under its lock.
  size_t slab_bytes() const;       // held now
  size_t allocated_bytes() const;  // of these, in objects that are not free in their slab
  size_t charged_pages() const;
  unsigned long objects_received() const;
};

class alignas(64) Heap {
 public:
  explicit Heap(HeapId id) : id_(id) {}

  HeapId id() const { return id_; }
  os::Lock& lock() { return lock_; }
  Inbox& inbox() { return inbox_; }
  const HeapCounters& counters() const { return counters_; }

  // Parked: no thread owns the heap. Relaxed: a hint for those who look for something to drain; the
  // lock decides.
  void set_parked(bool parked) { parked_.store(parked, memory_order_relaxed); }
  bool parked() const { return parked_.load(memory_order_relaxed); }

  // For how many nanoseconds the heap has served no refill, as far as those know who look; 0 if it
  // served one since the last look. A hint, of which a wrong answer costs a drain or a slab in the
  // wrong place. Release and acquire: the time goes with the number.
  uint64_t idle_ns(uint64_t now) {
    const unsigned long refills = counters_.refills.get();
    if (seen_refills_.load(memory_order_acquire) == refills) {
      return now - least(seen_at_.load(memory_order_relaxed), now);
    }
    seen_at_.store(now, memory_order_relaxed);
    seen_refills_.store(refills, memory_order_release);
    return 0;
  }

  // What the heap, whose thread is at work, has of a class to spare: slabs of which half is free,
  // or, where others free much of what is in them, also such of which an eighth is. Read without
  // the lock: a hint, and take_over finds out.
  enum class Surplus : uint8_t { kNone, kHalfFree, kEighthFree };
  Surplus surplus(SizeClass size_class) const;
  static constexpr unsigned kKept = 3;  // slabs that it keeps for its next refills

  // Which other heap could not be asked for memory. Asked without the lock; noted under it.
  Stall& stall() { return stall_; }

  // --- All below: under the lock. ---

  // Takes returned objects in (bounded by the option drain_bytes, and by a number of records), then
  // hands out up to `wanted` objects of a class from the slabs there are: slots[0], slots[-1], ...,
  // lowest address first within a slab. Returns how many.
  unsigned refill(SizeClass size_class, void** slots, unsigned wanted);

  // As refill, from messages that the bounded drain left behind, or from a new slab. 0 without
  // memory.
  unsigned refill_from_new(SizeClass size_class, void** slots, unsigned wanted);

  // One object of pages without memory, which reads as zero, from the slabs that the next refill
  // would take from, or from a new one if there are none. nullptr if it has no such object, or
  // without memory.
  void* take_zero(SizeClass size_class);

  // After a refill that brought `taken` objects, for a request of `asked` bytes.
  void note_request(SizeClass size_class, size_t asked, unsigned taken) {
    counters_.classes[size_class].asked.add(asked * taken);
  }

  // Takes back objects that were this heap's: the caller collects the bits of one word, so that a
  // run of neighbours costs one visit.
  void put_word(Slab* slab, unsigned word, uint64_t freed);

  // The same for objects of one class: up to the first one that is another heap's, or `end`, which
  // is returned. Stops the program at one that is free already or no object's start.
  void** put_back(SizeClass size_class, void** objects, void** end);

  // Takes messages in until `budget` bytes. True if it stopped for the budget.
  bool drain(size_t budget) { return drain(budget, 0); }

  // Takes in every message that has arrived (up to a gibibyte of objects).
  void drain_all();

  // Only in the child of a fork, under the lock: remote/inbox.h, repair.
  void repair_inbox();

  // Takes in what has arrived, lets go of every empty slab and gives the holes of the others back;
  // for the latter it walks over all slabs. Stops early, within a slab or a mebibyte of messages,
  // once somebody sleeps on `awaited` or on the heap's own lock; who sleeps on that while a call of
  // the program rests a heap whose thread does not work will take messages in, but waits for the
  // slabs. Returns the bytes of the holes.
  enum class Walk : uint8_t {
    kNow,         // for a call of the program, and a heap whose thread is gone, or the caller
    kNowAndThen,  // the same, but over slabs not again and again, as things come again and again
    kAtWork,      // its thread runs, and may hold more in its caches; as now and then
    kAtWorkNow,   // the same, for a call of the program
  };
  size_t rest(const os::Lock* awaited, Walk walk);

  // Makes one of `other`'s slabs of a class its own: of those of which half is free and resident,
  // one behind the first `kept`; if there is none and `eighths`, one of which an eighth is, but not
  // the first. False if it has none of these either. Under the locks of both. heap/take_over.cc
  bool take_over(Heap& other, SizeClass size_class, unsigned kept, bool eighths);

  // For a heap that needs a slab of a class. Samples a few other heaps, and never waits for a lock:
  // - drains those that are parked, or idle, so that the slabs they free can be used again;
  // - takes over a half-free slab from the first that can spare one. A donor is parked; or idle for
  //   1 ms, for classes that fill cache lines; or at work, with more such slabs than it needs;
  // - notes a heap that has messages and whose lock is held (stall).
  // True if this heap has a slab more. heap/take_over.cc
  bool take_from_others(SizeClass size_class);

  // Gives spare slabs back, but for `keep` of them.
  void trim_spares(unsigned keep);

  // Nothing has changed since rest() last came to its end.
  bool rested() const { return rested_.load(memory_order_relaxed); }

  // Nobody took objects out since rest() was called last, but for a walk at work: few are in the
  // cache of its thread, which has emptied it or is gone.
  bool rests() const { return rests_; }

  void check() const;  // invariants; debug builds

  Heap* next_parked = nullptr;  // guarded by the lock in heap/registry.cc

 private:
  struct Received {
    unsigned long messages = 0;
    size_t bytes = 0;
  };
  bool drain(size_t budget, size_t record_charge);  // what each record costs at least
  void receive_bitmap(Message* message, Tag tag, Slab* slab, Received& received);
  void receive_records(Message* message, unsigned count, Forwarder& forwarder, Received& received);
  // After objects came back to `slab`.
  LOFT_ALWAYS_INLINE void settle(Slab* slab) {
    if (LOFT_UNLIKELY(!slab->stays.has(slab->free))) return relist(slab);
    slab->check();
  }
  void relist(Slab* slab);
  bool take_in(const os::Lock* awaited);
  void list(Slab* slab, Fullness fullness);
  void unlist(Slab* slab);
  void release(Slab* slab);
  unsigned most_spares() const;
  void tick();
  bool list_new(SizeClass size_class);
  Slab* create(SizeClass size_class);
  Slab* create_fresh(SizeClass size_class);
  Slab* take_spare(SizeClass size_class);
  void destroy(Slab* slab);
  size_t count(const Holes& holes);
  void check_counters() const;
  unsigned take(SizeClass size_class, void** slots, unsigned wanted);

  os::Lock lock_;
  HeapId id_;
  Atomic<bool> parked_{false};
  Atomic<unsigned long> seen_refills_{0};
  Atomic<uint64_t> seen_at_{0};  // the time of the last look that found another number
  Atomic<bool> rested_{false};   // relaxed: a hint for those who look for something to do
  bool rests_ = false;
  bool walked_ = false;
  bool walked_at_rest_ = false;  // the last time
  uint32_t last_walk_ = 0;       // in ticks of span

  // Emptied slabs of one granule, the last one first: a thread that fills and empties slabs gets
  // its own pages back, still in its core's cache, and mostly cut into objects of the size that it
  // wants, without a lock that others wait for. Where the heap is a processor's and serves all
  // threads there, a quarter of what it has and a few more; and what was not used for a while goes
  // back.
  static constexpr unsigned kMostSpares = 256;
  struct Spare {
    Slab* slab;
    SizeClass size_class;  // the slab's own
  };
  Spare spares_[kMostSpares];  // of which spare_count_ are set: the others' pages stay untouched
  unsigned spare_count_ = 0;
  unsigned spares_unused_ = 0;  // the least that there were since the last trim
  uint32_t last_trim_ = 0;      // in ticks of span
  uint32_t last_tick_ = 0;      // that a refill has seen
  unsigned granules_ = 0;       // of slabs of one granule
  // The slabs with a free object, by how much is free.
  struct Available {
    List<Slab> lists[kFullnessLists];
    uint32_t slabs;
  };
  Available available_[kSizeClasses] = {};
  HeapCounters counters_;
  Stall stall_;  // of another heap; not beside the lock, for which others wait
  Inbox inbox_;
};

}  // namespace loft
