// A heap of the program's own, loft_heap_t in the public header: created, used by any thread, and
// destroyed whole. Over ordinary memory it takes extents from the window. Their pagemap entries
// name them, so free finds the heap of any object. Over a region of the caller's it has that one
// extent, and never touches it. No thread caches its objects and no message carries them: each call
// takes a lock of the heap. So nothing is in transit when the heap is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "heaps/shard.h"

namespace loft {

class alignas(64) UserHeap {
 public:
  // Over ordinary memory. nullptr without memory.
  static UserHeap* create();

  // Over the units in [region, region + bytes), of which there is at least one.
  static UserHeap* create_over(uintptr_t region, size_t bytes);
  static size_t units_in(uintptr_t region, size_t bytes);

  // Frees all objects, and the heap.
  void destroy();

  // False for a destroyed heap, until its memory is reused.
  bool exists() const { return mark_ == kMark; }

  // nullptr without memory. `alignment` is a power of two.
  void* allocate(size_t size, size_t alignment, bool zeroed);

  // `call` is the name that reports of misuse give. Without memory: nullptr, and `p` is unchanged.
  // The object stays only if it lies at a multiple of `alignment`.
  void* reallocate(const char* call, void* p, size_t size, size_t alignment = kAlignment);
  // False, and nothing has changed, if the object cannot have that length where it is.
  bool expand(const char* call, void* p, size_t size);
  // The usable size of an object of `size` bytes, at least 1, or more where room is scarce.
  size_t good_size(size_t size) const;
  bool over_region() const { return region_ != nullptr; }
  const Extent* region() const { return region_; }
  void free(const char* call, void* p);
  size_t usable_size(const char* call, const void* p) const;

  // Whether the address lies in the heap's memory.
  bool contains(const void* p) const { return extent_of(p) != nullptr; }

  // Whether the extent is this heap's. It may be changing meanwhile, into another heap's, too.
  bool owns(const Extent* extent) const;

  struct Totals {
    size_t heaps;
    size_t live_objects;
    size_t live_bytes;
    size_t capacity_bytes;  // regions, and extents of the window
    size_t metadata_bytes;
    size_t locks, waits;  // acquisitions of the shards' locks, and those that waited
  };
  Totals totals() const;

  void check() const;  // invariants; debug builds; no other thread uses the heap

  // --- For any heap. ---

  // The heap of an extent that contains an object.
  static UserHeap* of(const Extent* extent) { return Shard::of(extent)->heap(); }

  // As the above, for an object in an extent of any heap.
  static void* reallocate(const char* call, Extent* extent, void* p, size_t size,
                          size_t alignment = kAlignment);
  static bool expand(const char* call, Extent* extent, void* p, size_t size);
  static void free(const char* call, Extent* extent, void* p);

  // Stops the program if p is not the start of an object, or is that of one in a row that is free.
  static ObjectAt checked_object(const char* call, const Extent* extent, const void* p);

  // The object that covers an address in an extent. Blocks::object_at if the extent has blocks.
  static ObjectAt object_at(const Extent* extent, const void* p);

  // The object that starts there. Stops the program if there is none.
  static ObjectAt object_starting_at(const char* call, const Extent* extent, const void* p);

  // Whether the address lies in the region of any heap. For reports, which may come from anywhere:
  // while the list is in use, the answer is no.
  static bool in_a_region(const void* p);

  // Never waits: while the list is in use, returns earlier sums.
  struct Sums {
    size_t heaps;
    size_t live_bytes;
    size_t locks, waits;  // of shards, those of destroyed heaps included
  };
  static Sums sums_of_all();

  // Releases all free memory of all heaps. Between two extents, threads that wait for a lock go
  // first. Returns the bytes purged in extents that stay.
  static size_t purge_all();

  // The same for memory that has been free for some time. Called once per tick. Waits for no other
  // call. Stops if a thread waits, and continues there the next time. True if nothing is left to
  // do.
  static bool purge_idle_of_all();

  // The locks of all heaps and shards are held between these two calls.
  static void prepare_fork();
  static void finish_fork(bool child);

  UserHeap* next = nullptr;  // in the list of all heaps, guarded by its lock
  UserHeap* prev = nullptr;

 private:
  [[noreturn]] static void report_object(const char* what, const void* p, const ObjectAt& object);
  static constexpr uint64_t kMark = 0x6c6f667468656170;
  static constexpr unsigned kMostShards = 16;
  static constexpr unsigned kMeetings = 64;  // between two added shards

  static UserHeap* make();
  void enlist();
  void give_up();
  Extent* extent_of(const void* p) const;
  Extent* checked_extent(const char* call, const void* p) const;
  Shard* add_shard();
  Shard& lock_one();
  unsigned shard_count() const { return shard_count_.load(memory_order_acquire); }
  void purge(size_t& purged);
  bool purge_idle();
  void add_to(Totals& totals) const;

  uint64_t mark_ = kMark;
  Extent* region_ = nullptr;      // nullptr: over ordinary memory
  Atomic<unsigned> meetings_{0};  // of threads at a shard's lock; relaxed: a hint
  // Grows when threads meet. Acquire pairs with the release in add_shard: the new shard is
  // constructed and in shards_.
  Atomic<unsigned> shard_count_{0};
  Shard* shards_[kMostShards] = {};
};

}  // namespace loft
