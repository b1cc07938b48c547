// Size classes: 16-byte steps up to 256 bytes, then four classes per doubling up to kSmallMax
// (ISMM'19 2.6: a class is an exponent and two bits of mantissa). From 65 bytes on, rounding up
// wastes at most a fifth of an object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace loft {

using SizeClass = unsigned;

inline constexpr size_t kMinObject = 16;               // a carrier needs a link and one bitmap word
inline constexpr size_t kSmallMax = 32 * 1024;         // up to here, objects lie in slabs
inline constexpr size_t kMediumMax = size_t{4} << 20;  // up to here, in medium runs; then in spans
inline constexpr size_t kTableMax = 1024;  // up to here, a table maps each size to its bin
inline constexpr SizeClass kSizeClasses = 44;
inline constexpr size_t kCacheLine = 64;

inline constexpr SizeClass kLinearClasses = 16;  // 16, 32, .. 256
inline constexpr unsigned kLinearLog = 8;        // 256 == 1 << kLinearLog

constexpr size_t class_size(SizeClass c) {
  if (c < kLinearClasses) return (c + 1) * 16;
  const unsigned log = kLinearLog + (c - kLinearClasses) / 4;
  const unsigned step = (c - kLinearClasses) % 4 + 1;
  return (size_t{1} << log) + (size_t{step} << (log - 2));
}

// The smallest class that holds `size` bytes. Requires 1 <= size <= kSmallMax.
constexpr SizeClass class_of(size_t size) {
  if (size <= 256) return static_cast<SizeClass>((size - 1) >> 4);
  const size_t m = size - 1;
  const unsigned log = highest_bit(m);
  return kLinearClasses + (log - kLinearLog) * 4 + static_cast<unsigned>((m >> (log - 2)) & 3);
}

static_assert(class_size(kSizeClasses - 1) == kSmallMax);
static_assert(class_of(kSmallMax) == kSizeClasses - 1);
static_assert(class_of(1) == 0 && class_of(257) == 16 && class_size(16) == 320);

// An object that fills whole cache lines shares none with a neighbour. The thread that freed it may
// therefore reuse it without false sharing. Objects of all other classes return to their owner.
constexpr bool fills_cache_lines(SizeClass c) { return class_size(c) % kCacheLine == 0; }

}  // namespace loft
