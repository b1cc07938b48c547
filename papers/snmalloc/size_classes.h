// Size classes (2.6): four to each power of two, a mantissa of two bits below the leading one.
//
// A size that is a multiple of a power of two is rounded to a class that is one, too: either the
// steps between classes are multiples of it, or every such multiple is a class. Objects abut the
// end of their slab (2.7, 2.8), so an aligned object is one of a size that is rounded up first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snmalloc/config.h"

namespace snmalloc {

constexpr size_t size_of_class(unsigned size_class) {
  const unsigned packed = size_class + 1;
  const unsigned mantissa = packed & 3;
  const unsigned exponent = packed >> 2;
  const unsigned leading = exponent == 0 ? 0 : 1;
  return size_t{mantissa + leading * 4} << (4 + exponent - leading);
}

// `bytes` is not 0.
constexpr unsigned class_of_size(size_t bytes) {
  const size_t last = bytes - 1;
  const unsigned exponent = 58u - static_cast<unsigned>(__builtin_clzll(last | 32));
  const unsigned leading = exponent == 0 ? 0 : 1;
  const unsigned mantissa = static_cast<unsigned>(last >> (4 + exponent - leading)) & 3;
  return exponent * 4 + mantissa;
}

inline constexpr size_t kChunk = size_t{1} << Config::kChunkLog;
inline constexpr unsigned kSlabLog = 16;
inline constexpr size_t kSlab = size_t{1} << kSlabLog;

// Two links need four words with their backward edges (BatchIt 3.2), else two.
inline constexpr size_t kLeastObject = Config::kChecks ? 32 : 16;

// Classes below the first bound are small, those from there to the second medium.
inline constexpr unsigned kSmallClasses = class_of_size(size_t{1} << Config::kSmallLog);
inline constexpr unsigned kClasses = class_of_size(kChunk);
static_assert(size_of_class(kSmallClasses) == size_t{1} << Config::kSmallLog);
static_assert(size_of_class(kClasses) == kChunk);

}  // namespace snmalloc
