// Blocks: the memory of one owner cut into runs of units, by best fit. A block is free, or one
// object, or a row of up to 64 objects of one small size. What describes them lies in the metadata
// region alone, and nothing here reads or writes the memory itself: it may be a device's, or shared
// with another process. The owner brings the memory as extents and holds a lock around every call.
//
// Why not slabs: theirs are 64 KiB and more for each size class. A region of a megabyte would hold
// sixteen of them, and a small heap of ten sizes would take ten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/list.h"
#include "base/size_class.h"
#include "space/metadata.h"
#include "space/span_bins.h"

namespace loft {

// Sixteen of the smallest objects. Also what a graphics processor wants its memory aligned to.
inline constexpr unsigned kUnitLog = 8;
inline constexpr size_t kUnit = size_t{1} << kUnitLog;
constexpr size_t units_for(size_t bytes) { return round_up(bytes, kUnit) >> kUnitLog; }

// Objects of up to kTableMax bytes stand in rows, which end with their last object and are about
// this long, or shorter where 64 objects are. Short ones serve what has less than kManyUnits: long
// rows of many classes would leave room for little else.
inline constexpr SizeClass kRowClasses = class_of(kTableMax) + 1;
inline constexpr size_t kLongRow = 4096;
inline constexpr size_t kShortRow = 1024;
inline constexpr size_t kManyUnits = size_t{1} << (20 - kUnitLog);
constexpr unsigned objects_in_row(SizeClass c, size_t bytes) {
  const size_t size = class_size(c);
  unsigned objects = 2;
  while (objects * size % kUnit != 0 || (objects * size <= bytes / 2 && objects < 64)) objects *= 2;
  return objects;
}

// Of an odd multiple of 16 a row has sixteen objects: too long for those of more than 128 bytes.
constexpr bool has_rows(SizeClass c) { return class_size(c) <= 128 || class_size(c) % 32 == 0; }

struct Extent;
class Shard;

enum class Use : uint8_t { kUnused, kFree, kObject, kRow };

// Invariants:
//   the blocks of an extent tile it, and no two free ones touch
//   a free block is in the bins; a row is in the list of its class <=> room != 0
struct alignas(kMetadataUnit) Block {
  uintptr_t base;
  size_t units;
  Block* next;
  Block* prev;
  uint64_t room;   // of a row: a bit for each object that is free
  Extent* extent;  // that it lies in
  Use use;         // kUnused: it describes nothing, and covers no address
  uint8_t size_class;
  uint8_t objects;  // of a row
  bool dirty;       // of a free block: written, perhaps, since its pages last went back
  bool waited;      // of a free block: it was there, as it is, when pages last went back

  size_t length() const { return units; }
  uintptr_t end() const { return base + (units << kUnitLog); }
  bool covers(uintptr_t at) const { return at - base < units << kUnitLog; }
  bool is_empty_row() const { return room == ~uint64_t{0} >> (64 - objects); }
};
static_assert(sizeof(Block) == kMetadataUnit);

// The object that covers an address in an extent, or its place, if it is free in a row.
struct ObjectAt {
  uintptr_t start = 0;  // 0: there is none
  size_t bytes = 0;
  Block* block = nullptr;  // nullptr: it has the extent to itself
  unsigned index = 0;      // in its row
};

// Contiguous memory. `map` names the block that covers a unit: at the first and the last unit of
// every block, and at each unit of a row and of an object (but for long ones in a long extent,
// whose map is not to be written for each). Elsewhere it may name a block that was there once, so
// that whoever follows it asks whether the block covers the unit.
struct alignas(kMetadataUnit) Extent {
  uintptr_t base;
  size_t units;
  uint32_t* map;  // metadata indices; nullptr: one object has the extent to itself
  size_t bytes;   // usable, of that object
  Shard* owner;
  Extent* next;  // in a list of the owner's
  Extent* prev;

  uintptr_t end() const { return base + (units << kUnitLog); }
  bool covers(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - base < units << kUnitLog;
  }
};
inline constexpr size_t kNamedUnits = 2048;  // 512 KiB: objects up to this length, in any extent
// Extents of which each unit of every object is named: those that one block of metadata maps.
inline constexpr size_t kMostMapBytes = 32 * 1024;  // among the tables; larger ones stand alone
inline constexpr size_t kNamedExtent = kMostMapBytes / sizeof(uint32_t);

class Blocks {
 public:
  // `extent`, which has a map of zeros, becomes one free block. False without memory for it.
  bool add(Extent* extent, bool dirty);

  // The free block that is all of the extent, which can then be taken away; nullptr if there is
  // more.
  static Block* only_free_block(const Extent* extent);
  void remove(Extent* extent);

  // An object of at least `size` bytes, 1 <= size <= PTRDIFF_MAX; `alignment` is a power of two.
  // nullptr if no free block is found.
  void* allocate(size_t size, size_t alignment);

  // The last resort: looks at every free block, and gives a small object units of its own where
  // there is no place for a row.
  void* allocate_anywhere(size_t size, size_t alignment);

  // Rows without an object become free blocks. False if there were none.
  bool give_up_empty_rows();

  // The object that covers `p`, an address in the extent. Without the lock this is right as long as
  // the object stays allocated and each unit of it is named, or `p` is its start.
  static ObjectAt object_at(const Extent* extent, const void* p);

  // Whether it is only a place in a row.
  static bool is_free(const ObjectAt& object) {
    return object.block->use == Use::kRow && (object.block->room >> object.index & 1) != 0;
  }

  // `object` is allocated. Returns the free block that its place is part of now; nullptr if that is
  // still a row.
  Block* free(const ObjectAt& object);

  // Makes an object that is no row's `size` bytes long where it is. False if there is no room.
  bool resize(Block* block, size_t size);

  // Gives whole pages of the extent's free blocks back to the system: of those that have waited
  // since the last call, or of all. Adds the bytes that went to `given_back`. True if some wait
  // now.
  static bool give_back_pages(const Extent* extent, bool all, size_t& given_back);

  // Gives up all blocks at once, and what describes them.
  void clear();

  size_t live_bytes() const { return live_bytes_.get(); }
  size_t live_objects() const { return live_objects_.get(); }
  size_t metadata_bytes() const { return metadata_bytes_.get(); }

  // Stops the program where an invariant does not hold in the extent; debug builds.
  void check(const Extent* extent) const;

 private:
  // Descriptors come from the metadata region by the chunk, and stay with the owner.
  struct alignas(kMetadataUnit) Chunk {
    static constexpr size_t kBlocks = 31;
    Chunk* next;
    Block blocks[kBlocks];
  };

  static Block* block_at(const Extent* extent, uintptr_t at);
  static void name(const Block* block);
  bool have_spares(unsigned wanted);
  Block* describe(Extent* extent, uintptr_t base, size_t units, Use use, bool dirty);
  void discard(Block* block);
  void list(Block* block);
  void unlist(Block* block) { free_.remove(block); }
  void* take_object(SizeClass size_class);
  Block* make_row(SizeClass size_class);
  Block* cut_out(Block* from, uintptr_t base, size_t units);
  Block* take_run(size_t units, size_t alignment, bool anywhere);
  void* hand_out(Block* run);
  Block* release(Block* block);
  void account(size_t bytes, size_t objects) {
    live_bytes_.add(bytes);
    live_objects_.add(objects);
  }

  size_t units_ = 0;  // of all extents
  RunBins<Block> free_;
  List<Block> rows_[kRowClasses];   // with room
  Block* empty_[kRowClasses] = {};  // the row of the class that has all its objects, if any
  Block* spares_ = nullptr;         // unused descriptors, by `next`
  size_t spare_count_ = 0;
  Chunk* chunks_ = nullptr;
  Counter live_bytes_;  // written under the owner's lock, read by anybody
  Counter live_objects_;
  Counter metadata_bytes_;
};

}  // namespace loft
