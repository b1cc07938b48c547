// What a3alloc, its first form, and Hoard, its parent, differ in. CMakeLists.txt chooses one by
// ENGINE_CONFIG.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace engine {

inline constexpr size_t kHeader = 96;  // of a superblock (heap.h)

// The report's own system.
struct A3alloc {
  static constexpr unsigned kSuperblockLog = 12;  // a page (2.2)
  static constexpr unsigned kClasses = 9;         // 8 << c bytes, to half a page
  // The last one: the totally full (2.4).
  static constexpr unsigned kGroups = 5;
  // More than half a superblock: whole pages, which become superblocks when they are freed (2.3).
  static constexpr bool kHugeFromSystem = false;
  static constexpr const char* kSlackVariable = "A3ALLOC_SLACK";
  static constexpr const char* kEmptyVariable = "A3ALLOC_EMPTY";
  static constexpr const char* kLockVariable = "A3ALLOC_LOCK";
  static constexpr const char* kHeapsVariable = "A3ALLOC_HEAPS";

  static constexpr size_t size_of(unsigned size_class) { return size_t{8} << size_class; }
  // malloc aligns to 16 bytes, so the class of 8 has no user.
  static constexpr unsigned class_of(size_t bytes) {
    return bytes <= 16 ? 1 : loft::highest_bit(bytes - 1) + 1u - 3;
  }
  // Which block an offset lies in: no division (4.2).
  static constexpr size_t block_of(size_t offset, unsigned size_class) {
    return offset >> (3 + size_class);
  }
};

// As it was first (2.4): the totally full lie in the last of the quarters, which is searched.
struct A3allocOfQuarters : A3alloc {
  static constexpr unsigned kGroups = 4;
};

// Hoard's classes: each is the last one times 1.2, rounded up to 16.
struct HoardClasses {
  static constexpr size_t kLargest = 4096;
  static constexpr unsigned kMost = 32;

  unsigned count = 0;
  uint16_t sizes[kMost]{};
  uint8_t classes[kLargest / 16]{};  // by the bytes less one, in units of 16

  constexpr HoardClasses() {
    size_t unit = 0;
    for (size_t size = 16;; size = loft::round_up(size + (size + 4) / 5, 16)) {
      size = loft::least(size, kLargest);
      sizes[count] = static_cast<uint16_t>(size);
      for (; unit < size / 16; ++unit) classes[unit] = static_cast<uint8_t>(count);
      ++count;
      if (size == kLargest) break;
    }
  }
};
inline constexpr HoardClasses kHoardClasses{};

// Its parent, by what the report says of it, and by the parameters of the Hoard paper's
// measurements: superblocks of 8 KiB, classes a factor of 1.2 apart.
struct Hoard {
  static constexpr unsigned kSuperblockLog = 13;
  static constexpr unsigned kClasses = kHoardClasses.count;
  // In its authors' source the last group has the totally full alone, and no search enters it. (2.4
  // says that Hoard's algorithm searches them.)
  static constexpr unsigned kGroups = 5;
  // "Serviced entirely by the operating system's allocator" (2.3).
  static constexpr bool kHugeFromSystem = true;
  static constexpr const char* kSlackVariable = "HOARD_SLACK";
  static constexpr const char* kEmptyVariable = "HOARD_EMPTY";
  static constexpr const char* kLockVariable = "HOARD_LOCK";
  static constexpr const char* kHeapsVariable = "HOARD_HEAPS";

  static constexpr size_t size_of(unsigned size_class) { return kHoardClasses.sizes[size_class]; }
  static constexpr unsigned class_of(size_t bytes) {
    return kHoardClasses.classes[(bytes - 1) / 16];
  }
  static constexpr size_t block_of(size_t offset, unsigned size_class) {
    return static_cast<uint32_t>(offset) / kHoardClasses.sizes[size_class];
  }
};
static_assert(HoardClasses::kLargest == size_t{1} << (Hoard::kSuperblockLog - 1));

using Config = ENGINE_CONFIG;

}  // namespace engine
