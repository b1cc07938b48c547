// Blocks: the memory of one owner cut into runs of units, by best fit. A block is free, one object,
// or a row of up to 64 objects of one small size. All descriptors lie in the metadata region.
// Nothing here reads or writes the memory itself: it may belong to a device, or be shared with
// another process. The owner provides the memory as extents, and holds a lock around every call.
//
// Slabs do not fit: each size class needs slabs of 64 KiB or more. A region of 1 MiB would hold
// sixteen of them, and a small heap of ten sizes would take ten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/list.h"
#include "base/run_bins.h"
#include "base/size_class.h"
#include "space/metadata.h"

namespace loft {

// Sixteen of the smallest objects, and the alignment that a graphics processor wants.
inline constexpr unsigned kUnitLog = 8;
inline constexpr size_t kUnit = size_t{1} << kUnitLog;
constexpr size_t units_for(size_t bytes) { return round_up(bytes, kUnit) >> kUnitLog; }

// Objects of up to kTableMax bytes lie in rows. A row ends with its last object and has about the
// length below, or less where it holds 64 objects. Owners with fewer than kManyUnits use short
// rows: long rows of many classes would leave little room for anything else.
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

// If the size is an odd multiple of 16, a row has sixteen objects: too long above 128 bytes.
constexpr bool has_rows(SizeClass c) { return class_size(c) <= 128 || class_size(c) % 32 == 0; }

struct Extent;
class Shard;

enum class Use : uint8_t { kUnused, kFree, kObject, kRow };

// Invariants:
//   the blocks of an extent tile it, and no two free ones are adjacent
//   a free block is in the bins; a row is in the list of its class <=> free_bits != 0
struct alignas(kMetadataUnit) Block {
  uintptr_t base;
  size_t units;
  Block* next;
  Block* prev;
  uint64_t free_bits;  // of a row: a bit for each free object
  Extent* extent;      // the extent around it
  Use use;             // kUnused: describes nothing, covers no address
  uint8_t size_class;
  uint8_t objects;  // of a row
  bool dirty;       // of a free block: perhaps written since its pages were last purged
  bool waited;      // of a free block: unchanged since the last round saw it

  size_t length() const { return units; }
  uintptr_t end() const { return base + (units << kUnitLog); }
  bool covers(uintptr_t at) const { return at - base < units << kUnitLog; }
  bool is_empty_row() const { return free_bits == ~uint64_t{0} >> (64 - objects); }
};
static_assert(sizeof(Block) == kMetadataUnit);

// The object that covers an address in an extent, or its free place in a row.
struct ObjectAt {
  uintptr_t start = 0;  // 0: none
  size_t bytes = 0;
  Block* block = nullptr;  // nullptr: the object has the extent to itself
  unsigned index = 0;      // in the row
};

// Contiguous memory. `map` names the block that covers a unit: (a) at the first and the last unit
// of every block; (b) at each unit of a row or an object. Exception to (b): objects above
// kNamedUnits in extents above kNamedExtent, to avoid writing that much map for each. Other entries
// may name a block of the past, so a reader checks that the block covers the unit.
struct alignas(kMetadataUnit) Extent {
  uintptr_t base;
  size_t units;
  uint32_t* map;  // metadata indices; nullptr: one object has the extent to itself
  size_t bytes;   // usable bytes of that object
  Shard* owner;
  Extent* next;  // in one of the owner's lists
  Extent* prev;

  uintptr_t end() const { return base + (units << kUnitLog); }
  bool covers(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - base < units << kUnitLog;
  }
};
inline constexpr size_t kNamedUnits = 2048;  // 512 KiB
// kNamedExtent: the longest extent whose map fits into one block of metadata.
inline constexpr size_t kMostMapBytes = 32 * 1024;  // larger maps have pages of their own
inline constexpr size_t kNamedExtent = kMostMapBytes / sizeof(uint32_t);

class Blocks {
 public:
  // Makes `extent`, whose map is all zero, one free block. False without memory for its descriptor.
  bool add(Extent* extent, bool dirty);

  // The free block that is the whole extent, which can then be removed. nullptr if there is any
  // other block.
  static Block* only_free_block(const Extent* extent);
  void remove(Extent* extent);

  // Allocates at least `size` bytes, 1 <= size <= PTRDIFF_MAX. `alignment` is a power of two.
  // nullptr if no free block is found.
  void* allocate(size_t size, size_t alignment);

  // The bytes that such an object has, with no alignment.
  static size_t good_size(size_t size);

  // The last resort: searches every free block, and gives a small object units of its own where no
  // row fits.
  void* allocate_anywhere(size_t size, size_t alignment);

  // Turns empty rows into free blocks. False if there were none.
  bool give_up_empty_rows();

  // The object that covers `p`, an address in the extent. Correct without the lock while the object
  // stays allocated, if (a) each of its units is named, or (b) `p` is its start.
  static ObjectAt object_at(const Extent* extent, const void* p);

  // Calls add(context, start) for each object. Under the owner's lock.
  static void for_each(const Extent* extent, void (*add)(void* context, uintptr_t start),
                       void* context);

  // Whether it is a free place in a row.
  static bool is_free(const ObjectAt& object) {
    return object.block->use == Use::kRow && (object.block->free_bits >> object.index & 1) != 0;
  }

  // `object` is allocated. Returns the free block that now contains it; nullptr if it is still part
  // of a row.
  Block* free(const ObjectAt& object);

  // Resizes, in place, an object with a block of its own. False if there is no room.
  bool resize(Block* block, size_t size);

  // Purges whole pages of the extent's free blocks: of all, or of those unchanged since the last
  // call. Adds the bytes to `purged`. True if some blocks now wait for the next call.
  static bool purge_pages(const Extent* extent, bool all, size_t& purged);

  // Frees all descriptors, and thus all blocks, at once.
  void clear();

  size_t live_bytes() const { return live_bytes_.get(); }
  size_t live_objects() const { return live_objects_.get(); }
  size_t metadata_bytes() const { return metadata_bytes_.get(); }

  // Checks the invariants of the extent, and stops the program if one fails. Debug builds only.
  void check(const Extent* extent) const;

 private:
  // Descriptors are allocated from the metadata region in chunks, and stay with the owner.
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

  size_t units_ = 0;  // over all extents
  RunBins<Block> free_;
  List<Block> rows_[kRowClasses];   // with room
  Block* empty_[kRowClasses] = {};  // the class's one empty row, if any
  Block* spares_ = nullptr;         // unused descriptors, linked by `next`
  size_t spare_count_ = 0;
  Chunk* chunks_ = nullptr;
  Counter live_bytes_;  // written under the owner's lock; any thread may read
  Counter live_objects_;
  Counter metadata_bytes_;
};

}  // namespace loft
