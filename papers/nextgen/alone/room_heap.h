// The room's allocator: for one thread, by the paper's two strategies. Metadata lies apart from the
// objects (3.1.2): a slab's descriptor holds a stack of free places, indexes of 16 bits. And there
// is no atomic operation and no lock (3.1.3), except below it: memory for a slab, its descriptor or
// a large object comes from loft's floor `space`, which takes its lock and stores the pagemap's
// entries. Each mailbox has a heap, so that threads do not have objects in one line.
//
// A slab's objects are of one class (base/size_class.h). Its granules' entries name its descriptor
// and, as their kind, its class: usable_size and is_of_room read the entry alone, and never the
// room's metadata. They may be called by any thread for an object that it has; all else by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/size_class.h"
#include "space/pagemap.h"

namespace nextgen {

// Kinds of the pagemap that loft's floors do not use.
enum RoomKind : uint16_t { kRoomLarge = 6, kRoomLargeZero = 7, kRoomClasses = 8 };
static_assert(uint16_t{kRoomLarge} > uint16_t{loft::kGuest});
static_assert(kRoomClasses + loft::kSizeClasses <= loft::kMedium);

// Invariants: made <= capacity; `free` has free_count places below `made`, each once; an object is
// in use if its place is below `made` and not in `free`.
class RoomHeap;
struct Slab {
  RoomHeap* heap;
  uintptr_t base;
  Slab* next;         // of the list of its class; of no meaning while it is full or a spare
  Slab* prev;         // of the same
  uint64_t inverse;   // 2^36 / size, rounded up
  uint32_t capacity;  // objects
  uint32_t made;      // places that were in use at least once
  uint32_t free_count;
  uint8_t size_class;
  uint16_t free[];  // capacity of them

  bool is_full() const { return free_count == 0 && made == capacity; }
  bool is_empty() const { return free_count == made; }
};

class RoomHeap {
 public:
  void* allocate(size_t bytes);                            // `bytes` is not 0
  void* allocate_aligned(size_t alignment, size_t bytes);  // a power of two
  static void release(void* p);                            // of any heap

 private:
  void* allocate_of(loft::SizeClass size_class);
  void* allocate_large(size_t alignment, size_t bytes);
  Slab* make_slab(loft::SizeClass size_class);
  static void unmake_slab(Slab* slab);
  void insert(Slab* slab);
  void remove(Slab* slab);

  // Slabs with objects and places of a class; the last that was freed into first.
  Slab* partial_[loft::kSizeClasses]{};
  // An empty one of each class, so that a program at the edge of a slab does not make and unmake
  // one with each call.
  Slab* spare_[loft::kSizeClasses]{};
};

inline bool is_of_room(const void* p) {
  if (!loft::pagemap.contains(p)) return false;
  const uint16_t kind = loft::pagemap.of(p).bin();
  return kind >= kRoomLarge && kind < loft::kMedium;
}
inline size_t usable_size_of_room(const void* p) {
  const loft::Entry entry = loft::pagemap.of(p);
  return entry.bin() >= kRoomClasses ? loft::class_size(entry.bin() - kRoomClasses)
                                     : size_t{entry.index()} << loft::kGranuleLog;
}
// Of an object that was just allocated.
inline size_t zero_bytes_of_room(const void* p) {
  const loft::Entry entry = loft::pagemap.of(p);
  return entry.bin() == kRoomLargeZero ? size_t{entry.index()} << loft::kGranuleLog : 0;
}

}  // namespace nextgen
