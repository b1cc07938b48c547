// A heap of the program's own, loft_heap_t of the public header: made, used by any thread,
// destroyed whole. Over ordinary memory it takes extents from the window, whose pagemap entries
// name them, so that free finds the way from any object; over a region of the caller's it has that
// one extent, and never touches it. No thread caches its objects and no message carries them: each
// call takes a lock of the heap, and so nothing is under way when the heap is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/shard.h"
#include "base/atomic.h"

namespace loft {

class alignas(64) UserHeap {
 public:
  // Over ordinary memory. nullptr without memory.
  static UserHeap* create();

  // Over the units that lie in [region, region + bytes), of which there is one at least.
  static UserHeap* create_over(uintptr_t region, size_t bytes);
  static size_t units_in(uintptr_t region, size_t bytes);

  // All objects go, and the heap with them.
  void destroy();

  // False for a heap that was destroyed, as long as nothing else has its place.
  bool exists() const { return mark_ == kMark; }

  // nullptr without memory. `alignment` is a power of two.
  void* allocate(size_t size, size_t alignment, bool zeroed);

  // `call` is what a report of misuse speaks of. Without memory nullptr, and `p` stays as it was.
  void* reallocate(const char* call, void* p, size_t size);
  bool over_region() const { return region_ != nullptr; }
  void free(const char* call, void* p);
  size_t usable_size(const char* call, const void* p) const;

  // Whether the address lies in the heap's memory.
  bool contains(const void* p) const { return extent_of(p) != nullptr; }

  struct Totals {
    size_t heaps;
    size_t live_objects;
    size_t live_bytes;
    size_t capacity_bytes;  // regions, and extents of the window
    size_t window_bytes;    // the latter
    size_t metadata_bytes;
    unsigned long locks, waits;  // how often shards' were taken, and found held
  };
  Totals totals() const;

  void check() const;  // invariants; debug builds; no other thread uses the heap

  // --- Of any heap. ---

  // As the ones above, for an object in an extent of whichever heap.
  static void* reallocate(const char* call, Extent* extent, void* p, size_t size);
  static void free(const char* call, Extent* extent, void* p);

  // The object that covers an address in an extent: Blocks::object_at, where there are blocks.
  static ObjectAt object_at(const Extent* extent, const void* p);

  // The one that starts there; anything else stops the program.
  static ObjectAt object_starting_at(const char* call, const Extent* extent, const void* p);

  // Whether the address lies in a region that some heap was made over.
  static bool in_a_region(const void* p);

  // Waits for nobody: where the list is in use, sums that were right a moment ago.
  struct Sums {
    size_t heaps;
    size_t live_bytes;
    size_t window_bytes;
    unsigned long locks, waits;  // of shards; also of those of heaps that were destroyed
  };
  static Sums sums_of_all();

  // Gives back what is free in all heaps, and lets those who wait for a lock have it between two
  // extents. Returns the bytes of pages in extents that stay.
  static size_t give_back_all();

  // The same for what has been free for some time. Called once a tick; waits for nobody's call, and
  // stops if somebody waits, to go on from there the next time. True if nothing is left to be given
  // back.
  static bool rest_all();

  // All locks of all heaps are held between the two.
  static void prepare_fork();
  static void finish_fork(bool child);

  UserHeap* next = nullptr;  // in the list of all; guarded by its lock
  UserHeap* prev = nullptr;

 private:
  [[noreturn]] static void report_object(const char* what, const void* p, const ObjectAt& object);
  static constexpr uint64_t kMark = 0x6c6f667468656170;
  static constexpr unsigned kMostShards = 16;
  static constexpr unsigned kMeetings = 64;  // from one more shard to the next

  static UserHeap* make();
  static UserHeap* of(const Extent* extent) { return Shard::of(extent)->heap(); }
  void enlist();
  void give_up();
  Extent* extent_of(const void* p) const;
  Extent* checked_extent(const char* call, const void* p) const;
  Shard* add_shard();
  Shard& lock_one();
  unsigned shard_count() const { return shard_count_.load(memory_order_acquire); }
  void give_back(size_t& given_back);
  bool rest();
  void add_to(Totals& totals) const;

  uint64_t mark_ = kMark;
  Extent* region_ = nullptr;      // over ordinary memory: nullptr
  Atomic<unsigned> meetings_{0};  // of threads at a shard; relaxed, counted for a hint
  // Grows when threads meet. Acquire pairs with the release of whoever added the last one: it is
  // constructed, and stands in its place.
  Atomic<unsigned> shard_count_{0};
  Shard* shards_[kMostShards] = {};
};

}  // namespace loft
