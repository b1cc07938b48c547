// A shard of a heap of the program's own: extents cut into blocks, and a lock. It grows by extents
// from the window, or has one extent for life, a region of the caller's. An object comes back to
// the shard it came from, whoever frees it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/blocks.h"
#include "base/atomic.h"
#include "base/list.h"
#include "os/lock.h"
#include "space/pagemap.h"

namespace loft {

class UserHeap;

class alignas(64) Shard {
 public:
  // Written under the lock, read by anybody.
  struct Counters {
    Counter extent_bytes;
    Counter metadata_bytes;  // of what describes the extents
    Counter alone;           // objects that have an extent to themselves
    Counter alone_bytes;     // usable, of these
  };

  explicit Shard(UserHeap* heap) : heap_(heap) {}

  UserHeap* heap() const { return heap_; }
  os::Lock& lock() { return lock_; }
  const Counters& counters() const { return counters_; }
  const Blocks& blocks() const { return blocks_; }

  // From the pagemap entry of an extent in which an object lives.
  static Extent* extent_at(Entry entry) { return metadata::at_index<Extent>(entry.index()); }
  static Shard* of(const Extent* extent) { return extent->owner; }

  // Makes it the shard of a region, before anybody else knows it: this extent is all it ever has.
  // nullptr without memory for what describes it.
  Extent* cover(uintptr_t base, size_t units);

  // Objects that get an extent to themselves, in a shard that grows.
  static bool stands_alone(size_t size, size_t alignment);
  // One of them. Takes the lock. `zero`: every byte of it reads as zero.
  void* allocate_alone(size_t size, size_t alignment, bool& zero);

  // --- Under the lock. ---

  // Any other object. nullptr without memory.
  void* allocate(size_t size, size_t alignment);

  // What is left to do when the lock is given up; nothing, mostly.
  struct Leftover {
    Extent* extent;
    bool dirty;
  };

  // `object` is allocated, in an extent of this shard that is cut into blocks.
  Leftover free(const ObjectAt& object);
  Leftover free_alone(Extent* extent);

  // An object that is neither in a row nor alone, as Blocks::resize.
  bool resize(Block* block, size_t size);

  // A round gives back what is free: extents to the window, and of others whole pages to the
  // system, whose bytes are added to `given_back`; all of it, or what was free already in the round
  // before. It stops after any extent where somebody sleeps on `awaited`, to be called again. For
  // who sleeps on the shard's lock it stops too, or, if it is to give back all, lets that one go
  // first. One thread at a time goes round.
  void start_round();
  bool round_is_over() const { return next_to_rest_ == nullptr; }
  void rest(bool all, const os::Lock& awaited, size_t& given_back);
  uint32_t last_rest() const { return last_rest_; }  // in ticks of span

  void check() const;  // invariants; debug builds

  // --- Without the lock. ---

  static void finish(Leftover leftover) {
    if (LOFT_UNLIKELY(leftover.extent != nullptr)) return_to_window(leftover);
  }

  // Whether something was freed since the last round began, or waits for the next one. Relaxed: a
  // hint for who looks for work.
  bool restless() const { return restless_.load(memory_order_relaxed); }

  // Gives all extents up. Nobody uses the shard any more.
  void give_up();

 private:
  static void return_to_window(Leftover leftover);
  void adopt(Extent* extent);
  Leftover part_with(Extent* extent, bool dirty);
  Extent* make_extent(uintptr_t base, size_t units, bool dirty);
  bool grow(size_t size);
  bool rest_extent(Extent* extent, bool all, size_t& given_back);

  os::Lock lock_;
  UserHeap* heap_;
  Extent* region_ = nullptr;  // nullptr: the shard grows
  Blocks blocks_;
  List<Extent> extents_;
  Extent* spare_ = nullptr;  // was empty when it was last looked at, and kept for what comes next
  Extent* next_to_rest_ = nullptr;  // in this round
  uint32_t last_rest_ = 0;
  Atomic<bool> restless_{false};
  Counters counters_;
};

}  // namespace loft
