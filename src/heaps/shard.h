// A shard of a heap of the program's own: extents cut into blocks, and a lock. It grows by extents
// from the window, or has one fixed extent, a region of the caller's. An object returns to the
// shard that it came from, whichever thread frees it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/list.h"
#include "heaps/blocks.h"
#include "os/lock.h"
#include "space/pagemap.h"

namespace loft {

class UserHeap;

class alignas(64) Shard {
 public:
  // Written under the lock; any thread may read.
  struct Counters {
    Counter extent_bytes;
    Counter metadata_bytes;  // of the extents' descriptors
    Counter alone;           // objects with an extent to themselves
    Counter alone_bytes;     // usable bytes of these
  };

  explicit Shard(UserHeap* heap) : heap_(heap) {}

  UserHeap* heap() const { return heap_; }
  os::Lock& lock() { return lock_; }
  const Counters& counters() const { return counters_; }
  const Blocks& blocks() const { return blocks_; }

  // From the pagemap entry of an extent that contains an object.
  static Extent* extent_at(Entry entry) { return metadata::at_index<Extent>(entry.index()); }
  static Shard* of(const Extent* extent) { return extent->owner; }

  // Makes this the shard of a region, before any other thread knows it: its only extent. nullptr
  // without memory for the descriptors.
  Extent* cover(uintptr_t base, size_t units);

  // Whether an object gets an extent to itself. Only in a shard that grows.
  static bool stands_alone(size_t size, size_t alignment);
  // Allocates such an object. Takes the lock. `zero` is set to whether every byte reads as zero.
  void* allocate_alone(size_t size, size_t alignment, bool& zero);

  // --- Under the lock. ---

  // Allocates any other object. nullptr without memory.
  void* allocate(size_t size, size_t alignment);

  // Work that is left for after the unlock; mostly none.
  struct Leftover {
    Extent* extent;
    bool dirty;
  };

  // `object` is allocated, in an extent of this shard that is cut into blocks.
  Leftover free(const ObjectAt& object);
  Leftover free_alone(Extent* extent);

  // As Blocks::resize.
  bool resize(Block* block, size_t size);

  // A round returns empty extents to the window, and purges whole free pages of the others, whose
  // bytes it adds to `purged`. With `all` it takes all that is free, otherwise what was free in
  // the previous round already. It stops after any extent if a thread sleeps on `awaited`, and the
  // caller continues later. For a sleeper on the shard's lock it also stops or, with `all`, lets
  // that thread go first. One thread at a time makes rounds.
  void start_round();
  bool round_is_over() const { return next_to_purge_ == nullptr; }
  void purge(bool all, const os::Lock& awaited, size_t& purged);
  uint32_t last_purge() const { return last_purge_; }  // in ticks of span

  void check() const;  // invariants; debug builds

  // --- Without the lock. ---

  static void finish(Leftover leftover) {
    if (LOFT_UNLIKELY(leftover.extent != nullptr)) return_to_window(leftover);
  }

  // Whether something was freed since the last round began, or a block waits for the next one.
  // Relaxed: a hint for threads that look for work.
  bool needs_purge() const { return needs_purge_.load(memory_order_relaxed); }

  // Releases all extents. No thread uses the shard any more.
  void give_up();

 private:
  static void return_to_window(Leftover leftover);
  void adopt(Extent* extent);
  Leftover part_with(Extent* extent, bool dirty);
  Extent* make_extent(uintptr_t base, size_t units, bool dirty);
  bool grow(size_t size);
  bool purge_extent(Extent* extent, bool all, size_t& purged);

  os::Lock lock_;
  UserHeap* heap_;
  Extent* region_ = nullptr;  // nullptr: the shard grows
  Blocks blocks_;
  List<Extent> extents_;
  Extent* spare_ = nullptr;          // became empty and was kept; may be in use again
  Extent* next_to_purge_ = nullptr;  // of this round
  uint32_t last_purge_ = 0;
  Atomic<bool> needs_purge_{false};
  Counters counters_;
};

}  // namespace loft
