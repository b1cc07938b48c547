// The shape of a slab of each size class. A slab has as many granules, a power of two, as hold 16
// objects. The slack behind the last object is never touched and stays below a sixteenth. Slabs of
// large objects still become empty often enough: with 32 to 128 objects above 1 KiB, a redis server
// with mixed data held 5 % more memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "base/size_class.h"
#include "space/pagemap.h"

namespace loft {

inline constexpr size_t kMinSlabObjects = 16;
inline constexpr size_t kMaxSlabBytes = kMinSlabObjects * kSmallMax;
inline constexpr unsigned kMaxWords = 64;  // one summary word has a bit for each

struct Geometry {
  uint64_t inverse;      // ceil(2^64 / size): the index of an offset is offset * inverse >> 64
  uint64_t start_limit;  // starts_in
  uint32_t size;
  uint32_t objects;
  uint16_t granules;
  uint16_t words;
  uint16_t carrier_words;  // bitmap words that fit into one freed object, behind its link
};

struct GeometryTable {
  Geometry of[kSizeClasses];

  constexpr GeometryTable() : of{} {
    for (SizeClass c = 0; c < kSizeClasses; ++c) {
      const size_t size = class_size(c);
      size_t bytes = kGranule;
      while (bytes / size < kMinSlabObjects) bytes *= 2;
      const size_t objects = bytes / size;
      const uint64_t inverse = ~uint64_t{0} / size + 1;
      const uint64_t excess = size * inverse;  // modulo 2^64
      of[c] = {inverse,
               (objects - 1) * excess + 1,
               static_cast<uint32_t>(size),
               static_cast<uint32_t>(objects),
               static_cast<uint16_t>(bytes >> kGranuleLog),
               static_cast<uint16_t>((objects + 63) / 64),
               static_cast<uint16_t>(size / 8 - 1)};
    }
  }
};

inline constexpr GeometryTable kGeometryTable;

constexpr const Geometry& geometry(SizeClass c) { return kGeometryTable.of[c]; }
// Of the class of a bin, by the bin's offset: both tables are in the order of classes.
inline const Geometry& geometry_of_bin(size_t bin) {
  static_assert(sizeof(Geometry) == 2 * kBinBytes);
  const auto* const table = reinterpret_cast<const char*>(kGeometryTable.of);
  return *reinterpret_cast<const Geometry*>(table + 2 * bin - 2 * kFirstBinOffset);
}

// The product of a byte offset within the slab and the inverse has two words, which one instruction
// makes. The upper one is the index of the object that covers the offset. Proof: with offset =
// index * size + r and excess = size * inverse - 2^64 < size, the lower one is index * excess +
// r * inverse, which stays below 2^64, because index * excess < 2^20 stays below the smallest
// inverse.
struct Product {
  uint64_t upper;
  uint64_t lower;
};
LOFT_ALWAYS_INLINE constexpr Product product_of(uint64_t offset, uint64_t inverse) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{offset} * inverse;
  const auto upper = static_cast<uint64_t>(product >> 64);
  const auto lower = static_cast<uint64_t>(product);
  return {upper, lower};
}
constexpr uint64_t index_in(Product product) { return product.upper; }

// Whether an object starts at the offset: one comparison. Proof: of a start the lower word is index
// * excess, and `start_limit` is 1 more than that of the last object. Elsewhere the lower word is
// at least `inverse`. One start can lie behind the last object. Its lower word is beyond the limit,
// unless the excess is 0: then the size is a power of two, and nothing lies there.
constexpr bool starts_in(Product product, uint64_t start_limit) {
  return product.lower < start_limit;
}

// The index of the object that starts `offset` bytes into a slab; kNoObject for an offset inside an
// object or behind the last one. It may lie outside the slab: whoever frees twice, or follows a
// link that was overwritten, may bring a pointer whose slab is another by now.
inline constexpr uint32_t kNoObject = ~uint32_t{0};
LOFT_ALWAYS_INLINE constexpr uint32_t object_starting_at(const Geometry& shape, uint64_t offset) {
  const Product product = product_of(offset, shape.inverse);
  const uint64_t index = index_in(product);
  const bool starts = starts_in(product, shape.start_limit) && index < shape.objects;
  return LOFT_LIKELY(starts) ? static_cast<uint32_t>(index) : kNoObject;
}

static_assert(geometry(0).words == kMaxWords);
static_assert(~uint64_t{0} / kSmallMax > kMaxSlabBytes && kMaxSlabBytes <= uint64_t{1} << 20);

}  // namespace loft
