// A heap owns slabs and has an inbox for objects that other threads freed. Its slow paths run under
// its own lock, which is mostly uncontended while one thread owns the heap. Under the lock, other
// threads drain a heap whose thread is gone or idle, and take over slabs that it can spare. Heaps
// are never destroyed: a thread that ends abandons its heap, and the next thread adopts it. A heap
// forwards messages that reach it and are for another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/idle.h"
#include "base/list.h"
#include "base/macros.h"
#include "base/size_class.h"
#include "os/lock.h"
#include "remote/directory.h"
#include "remote/inbox.h"
#include "remote/outbox.h"
#include "slab/holes.h"
#include "slab/medium_runs.h"
#include "slab/slab.h"
#include "space/pagemap.h"
#include "space/unused.h"

namespace loft {

// A stall: a heap that could provide memory but cannot be drained. A thread preempted during a
// refill holds its heap's lock for milliseconds. Until it runs again, no other thread can receive
// objects freed for that heap. A thread that notices this when it needs memory keeps such objects
// meanwhile. Otherwise, two threads that replace each other's objects of a few KiB would take tens
// of megabytes of new memory each time.
//
// All accesses are relaxed: these are hints, and a wrong answer only costs an object a detour.
// Locks of heaps are never destroyed. A caller of note() holds the lock of the heap that has this
// Stall.
class Stall {
 public:
  // The lock of heap `id` was found held at `now`, in nanoseconds. The first such lock is watched.
  // If the same hold is seen again after kStalledNs, the heap counts as stalled.
  void note(HeapId id, const os::Lock& lock, uint64_t now) {
    if (!is_held_still()) {
      id_.store(kNoHeap, memory_order_relaxed);
      lock_.store(&lock, memory_order_relaxed);
      hold_.store(lock.acquisitions(), memory_order_relaxed);
      since_ = now;
    } else if (lock_.load(memory_order_relaxed) == &lock && now - since_ >= kStalledNs) {
      id_.store(id, memory_order_relaxed);
    }
  }

  // Whether heap `id` was found stalled, and the same hold of its lock continues.
  bool is_at(HeapId id) {
    if (LOFT_LIKELY(id_.load(memory_order_relaxed) != id)) return false;
    if (is_held_still()) return true;
    id_.store(kNoHeap, memory_order_relaxed);
    return false;
  }

 private:
  bool is_held_still() const {
    const os::Lock* lock = lock_.load(memory_order_relaxed);
    return lock != nullptr && lock->is_held() &&
           lock->acquisitions() == hold_.load(memory_order_relaxed);
  }

  // A refill by a running thread ends long before, and so do most other holds of the lock.
  static constexpr uint64_t kStalledNs = 100'000;

  Atomic<HeapId> id_{kNoHeap};
  Atomic<const os::Lock*> lock_{nullptr};  // the watched lock
  Atomic<size_t> hold_{0};                 // its number of acquisitions at the first look
  uint64_t since_ = 0;                     // time of the first look
};

// Written under the heap's lock, or before the heap has its owner; any thread may read.
struct HeapCounters {
  ClassCounters classes[kSizeClasses];
  Counter refills;    // over all classes
  Counter net_bytes;  // of objects in slabs, since the heap has its owner: taken less put
  Counter drains;
  Counter helped;  // other heaps drained for a refill of this one
  Counter messages_received;
  Counter forwards;
  Counter posts;
  Counter slabs_taken_over;
  Counter fresh_slabs;  // times that the heap made slabs of memory that it did not have
  Counter hole_bytes;   // purged so far
  Counter spare_bytes;  // in spare slabs, now

  Counter medium_taken;     // medium objects, so far
  Counter medium_resident;  // of these, on pages that were all resident
  Counter medium_resized;   // to another number of pages, in place
  Counter medium_out;       // bytes in the program's hands, in caches or under way, now
  Counter medium_received;  // bytes that came back by message

  // Sums over the slabs taken over from other heaps, minus those over the slabs that others took
  // (modulo 2^64). Class counters do not move with a slab, so their totals over all heaps do not
  // change when it moves.
  struct Adopted {
    Counter slab_bytes, allocated_bytes, charged_pages;
  };
  Adopted adopted;

  // Over all classes, for the heap's own slabs. Under its lock.
  size_t slab_bytes() const;       // held now
  size_t allocated_bytes() const;  // of these, in objects that are not free in their slab
  size_t charged_pages() const;
  size_t objects_received() const;
};

class alignas(64) Heap {
 public:
  explicit Heap(HeapId id) : id_(id) {}

  HeapId id() const { return id_; }
  os::Lock& lock() { return lock_; }
  Inbox& inbox() { return inbox_; }
  const HeapCounters& counters() const { return counters_; }

  // Whether it takes no runs from others and gives them none.
  bool keeps_runs() const { return id_ == medium::samples.load(memory_order_relaxed); }

  // No thread owns the heap. Relaxed: a hint for threads that look for a heap to drain. Under the
  // heap's lock, it is false once an adopter has taken objects: it took them under that lock.
  void set_abandoned(bool abandoned) { abandoned_.store(abandoned, memory_order_relaxed); }
  bool abandoned() const { return abandoned_.load(memory_order_relaxed); }

  // For the thread that is about to own the heap. Under the lock: others may put objects back.
  void begin_net() { counters_.net_bytes.add(-counters_.net_bytes.get()); }
  // Another thread has put back `bytes` bytes, under the lock, and counts them itself
  // (stats/net.h).
  void leave_net(size_t bytes) { counters_.net_bytes.add(bytes); }

  // Nanoseconds without a refill, as observed by callers of this function: 0 if there was a refill
  // since the last look. A hint: a wrong answer costs a drain or a misplaced slab. Acquire pairs
  // with the release below: a reader that sees the refill count sees a time at least as new.
  uint64_t idle_ns(uint64_t now) {
    const size_t refills = counters_.refills.get();
    if (seen_refills_.load(memory_order_acquire) == refills) {
      return now - least(seen_at_.load(memory_order_relaxed), now);
    }
    seen_at_.store(now, memory_order_relaxed);
    seen_refills_.store(refills, memory_order_release);
    return 0;
  }

  // What a busy heap can spare of a class: half-free slabs, or also slabs an eighth free where
  // other threads free many of the class's objects. Read without the lock: a hint. take_over
  // decides.
  enum class Surplus : uint8_t { kNone, kHalfFree, kEighthFree };
  Surplus surplus(SizeClass size_class) const;
  static constexpr unsigned kKept = 3;  // slabs that stay for the heap's next refills

  // A heap that could not be drained. Read without the lock, noted under it.
  Stall& stall() { return stall_; }

  // --- Under the lock from here on. ---

  // Drains messages, limited by kDrainBytes and by a number of records. Then hands out up to
  // `wanted` objects of a class from the heap's slabs: slots[0], slots[-1], ..., lowest address
  // first within a slab. Returns the number of objects.
  unsigned refill(SizeClass size_class, void** slots, unsigned wanted);

  // As refill, from messages that the bounded drain left, a slab taken over, or a new one. Returns
  // 0 if there is no memory.
  unsigned refill_from_new(SizeClass size_class, void** slots, unsigned wanted);

  // Returns a medium object of `asked` bytes. nullptr without memory. `room`: if possible, where it
  // can grow to twice that. *zero: whether it is known to read as zero. heap/medium.cc
  void* take_medium(size_t asked, bool room, bool* zero);

  // Takes back a medium object of this heap, which is kept. Stops the program if it is free.
  void put_medium(void* p);

  // Resizes a medium object of this heap to another number of pages, in place. False if there is no
  // room.
  bool resize_medium(void* p, size_t asked);

  const MediumRuns& mediums() const { return mediums_; }

  // Returns one object on pages without memory, which reads as zero. It comes from the slab that
  // the next refill would use, or from a new one if there is none. nullptr if the slab has no such
  // object, or without memory.
  void* take_zero(SizeClass size_class);

  // Called after a refill of `taken` objects for a request of `asked` bytes.
  void note_request(SizeClass size_class, size_t asked, unsigned taken) {
    counters_.classes[size_class].asked.add(asked * taken);
  }

  // Puts objects of this heap back into their slab. The caller collects the bits of one word, so
  // that a run of neighbours costs one visit.
  void put_word(Slab* slab, unsigned word, uint64_t freed);

  // The same for objects of one class. Stops at the first object of another heap, or at `end`, and
  // returns that position. Stops the program at an object that is already free, and at an address
  // where none starts.
  void** put_back(SizeClass size_class, void** objects, void** end);

  // Receives messages until `budget` bytes. True if the budget stopped it.
  bool drain(size_t budget) { return drain(budget, 0); }

  // Receives every message that has arrived, up to 1 GiB of objects.
  void drain_all();

  // Only in the child of a fork, under the lock. See Inbox::repair.
  void repair_inbox();

  // One look at a heap that may be idle, by whoever comes by. Purges it if nobody owns it, or if it
  // has served no refill for some looks: what its thread frees does not count. Up to `most` bytes,
  // which it adds to *purged. `is_shared`: all threads share it. Called without the lock, for which
  // it does not wait: the heap's thread may hold it inside a call, for any length of time.
  enum class Rest : uint8_t {
    kWhole,        // there was nothing to do
    kLater,        // the next round looks again
    kInterrupted,  // there was more than `most`
  };
  Rest look(bool is_shared, unsigned ticks, size_t most, size_t* purged);

  // Drains the inbox, releases empty slabs, and purges the holes of others, for which it walks over
  // the slabs to which objects came back since the last walk. Stops early, within one slab or 1 MiB
  // of messages, (a) once a thread sleeps on `awaited` or on the heap's own lock; (b) after `most`
  // bytes. Exception: in a walk of kind kNow, a sleeper on the heap's lock ends the drain, but not
  // the walk. Returns the bytes purged, without those of spare slabs that became free spans.
  enum class Walk : uint8_t {
    kNow,         // for a call of the program: the caller's heap, or one whose thread is gone
    kNowAndThen,  // for periodic callers: as kNow, but walks at most once in kDecayTicks
    kAtWork,      // the thread runs, and its caches may hold more; walks as kNowAndThen
    kAtWorkNow,   // as kAtWork, for a call of the program: walks at once
    kExcess,      // as kAtWorkNow, but a few spare slabs stay (purge_spares)
  };
  size_t purge(const os::Lock* awaited, Walk walk, size_t most = ~size_t{0});

  // Takes over one of `other`'s slabs of a class. First choice: a slab with half of it free and
  // resident, after skipping `kept` such slabs. If there is none and `eighths` is set: a slab with
  // an eighth of it free and resident, except the first. False if there is neither. Under the locks
  // of both heaps. heap/take_over.cc
  bool take_over(Heap& other, SizeClass size_class, unsigned kept, bool eighths);

  // The same of a medium run that has `pages` free pages in a row: any run of a heap without a
  // thread; of others one that is empty, or half of whose memory these pages are part of.
  bool take_run_over(Heap& other, unsigned pages);

  // For a heap that needs a slab of a class. Samples up to sixteen heaps, and never waits for a
  // lock:
  // - drains a heap that has messages and has served no refill since the last look, and takes the
  //   slabs that this empties from it if it is idle for 1 ms; four heaps at most;
  // - takes over a slab from the first donor. A donor is (a) abandoned; (b) idle for 1 ms, if the
  //   class fills cache lines; or (c) busy, with a surplus (see above);
  // - notes a heap that should be drained but whose lock is held (stall).
  // True if this heap has gained a slab. heap/take_over.cc
  bool take_from_others(SizeClass size_class);

  // Destroys spare slabs until `keep` are left, which become free spans.
  void trim_spares(unsigned keep);

  // For a purge of a heap at work, which wants spare slabs again soon. A few stay, and lose their
  // memory, 1 MiB beyond `most` at most. The others become free spans. Returns the bytes of the
  // few. None stay where memory is tight, or huge pages are to stay whole.
  size_t purge_spares(size_t most);

  // Purges all gaps of medium runs, as put_medium does when there are too many.
  void purge_gaps() {
    counters_.hole_bytes.add(mediums_.purge(MediumRuns::Round::kAll, nullptr, nullptr, ~size_t{0}));
  }

  // Gives back all spare slabs and empty runs.
  void give_up_spares() {
    trim_spares(0);
    mediums_.give_back_empty();
  }

  // Nothing has changed since purge() last ran to its end.
  bool is_purged() const { return is_purged_.load(memory_order_relaxed); }

  // No object was taken out since the last purge() of a heap that was not at work. By then the
  // thread had emptied its cache or was gone, so few objects are cached.
  bool is_idle() const { return is_idle_; }

  void check() const;  // invariants; debug builds

  Heap* next_abandoned = nullptr;  // guarded by the lock in heap/registry.cc

 private:
  struct Received {
    size_t messages = 0;
    size_t bytes = 0;
    size_t medium_bytes = 0;   // of these
    size_t record_charge = 0;  // a record takes at least this of the drain's budget
  };
  bool drain(size_t budget, size_t record_charge);

  // Bytes of returned objects that one refill takes in, so that no call is long. On a queue without
  // bound, a quarter took 0.96 of the throughput and a sixteenth 0.91; more gained nothing.
  static constexpr size_t kDrainBytes = size_t{1} << 20;

  size_t receive(Message* message, Tag tag, const uint64_t* words, Entry entry,
                 Forwarder& forwarder, Received& received);
  size_t receive_keyed(Message* message, Tag tag, Entry entry, Forwarder& forwarder,
                       Received& received);
  void receive_bitmap(Message* message, Tag tag, const uint64_t* words, Slab* slab,
                      Received& received);
  void receive_records(Message* message, unsigned count, const Record* records,
                       Forwarder& forwarder, Received& received);
  void receive_alone(Message* message, Slab* slab, Received& received);
  void receive_medium(Message* message, Received& received);
  MediumRuns::Taken take_pages(unsigned pages, bool room);
  bool take_run_from_others(unsigned pages);
  void help(Heap& other);  // drains its inbox; under both locks
  // Called after objects came back to `slab`.
  LOFT_ALWAYS_INLINE void update_list(Slab* slab) {
    if (LOFT_UNLIKELY(slab->is_due())) return relist(slab);
    slab->check();
  }
  void relist(Slab* slab);
  template <bool kOneGranule>
  void** put_each(SizeClass size_class, void** objects, void** end);
  void** put_rows(SizeClass size_class, void** objects, void** end);
  void** put_runs(SizeClass size_class, void** objects, void** end);
  bool take_in(const os::Lock* awaited);
  void list(Slab* slab, Fullness fullness);
  void unlist(Slab* slab);
  void release(Slab* slab);
  // The slab that serves next, in the order of Fullness. nullptr if none has a free object.
  Slab* next_slab(SizeClass size_class) const;
  unsigned most_spares() const;
  void tick();
  bool list_new(SizeClass size_class);
  Slab* create(SizeClass size_class);
  Slab* create_fresh(SizeClass size_class);
  size_t filled(SizeClass size_class) const;
  Slab* take_spare(SizeClass size_class);
  void destroy(Slab* const* slabs, unsigned count);
  void keep_spare(Slab* slab);
  void drop_spares(unsigned keep);  // as trim_spares, which begins a new wait
  size_t count(Holes& holes);
  void charge(SizeClass size_class, size_t pages);  // modulo 2^64
  size_t fill_pages(Slab* slab, const PageSet& gone, bool purged);
  void populate(Slab* slab, const PageSet& gone, size_t lost);
  void check_counters() const;
  unsigned take(SizeClass size_class, void** slots, unsigned wanted);

  os::Lock lock_;
  HeapId id_;
  Atomic<bool> abandoned_{false};
  Atomic<size_t> seen_refills_{0};
  Atomic<uint64_t> seen_at_{0};    // time of the last look that found a new number
  Atomic<bool> is_purged_{false};  // relaxed: a hint for threads that look for work
  bool is_idle_ = false;
  bool goes_on_ = false;  // the last look, which had more to do than it might
  Idle refills_seen_{};   // by looks
  bool walked_ = false;
  bool walked_at_rest_ = false;  // the last walk
  bool hole_refused_ = false;    // since the last whole walk began
  bool interrupted_ = false;     // the last walk; settled slabs may lie in front of others
  uint32_t last_walk_ = 0;       // in ticks of span

  // Empty slabs of one granule, as a stack. A thread that fills and empties slabs gets its own
  // pages back: still in its core's cache, mostly cut for the size it wants, and without a lock
  // that others wait for. A processor's heap serves all threads there, so it keeps only a quarter
  // of its granules plus a few. Spares that go unused for some ticks are released.
  static constexpr unsigned kMostSpares = 264;
  static constexpr unsigned kShareAtOnce = 8;  // of granules_, that come, go or stay at once
  struct Spare {
    Slab* slab;
    SizeClass size_class;  // a copy of the slab's own
  };
  Spare spares_[kMostSpares];  // the first spare_count_ are set; pages of the rest stay untouched
  unsigned spare_count_ = 0;
  unsigned spares_unused_ = 0;  // minimum since the last trim
  uint32_t last_trim_ = 0;      // in ticks of span
  uint32_t last_tick_ = 0;      // the last tick that a refill saw
  unsigned granules_ = 0;       // in slabs of one granule, spare ones excluded
  // Slabs with a free object, by fullness. Those that are settled come last in each list: a walk
  // ends at the first.
  struct Available {
    List<Slab> lists[kFullnessLists];
    uint32_t slabs;
    uint32_t held;  // full ones included, spare ones excluded, whichever heap made them
  };
  Available available_[kSizeClasses] = {};
  MediumRuns mediums_;
  HeapCounters counters_;
  // Free bytes on charged pages (slab/holes.h), modulo 2^64; what space/unused.h was told of them.
  size_t unused_ = 0;
  unused::Teller<unused::kSlabStep> told_;
  Stall stall_;  // of another heap; placed away from the lock, on which others wait
  Inbox inbox_{this};
};

}  // namespace loft
