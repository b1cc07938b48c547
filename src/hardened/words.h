// Zeros: looked for and written sixteen bytes at a time, in place of calls that cost more than the
// few words of a small object. Addresses and lengths are multiples of sixteen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

namespace loft::hardened {

// Two words, which any processor has some way to treat as one.
using Pair = uint64_t __attribute__((vector_size(16), may_alias));

inline const Pair* pair_at(const void* from, size_t bytes) {
  return reinterpret_cast<const Pair*>(static_cast<const char*>(from) + bytes);
}

// 0 exactly if `bytes` bytes read as zero, which are some. The second form is for many.
LOFT_ALWAYS_INLINE uint64_t any_bit(const void* from, size_t bytes) {
  const Pair* at = pair_at(from, 0);
  const Pair* const end = pair_at(from, bytes);
  Pair all = *at;
  while (++at != end) all |= *at;
  return all[0] | all[1];
}
inline uint64_t any_bit_of_many(const void* from, size_t bytes) {
  const Pair* at = pair_at(from, 0);
  const Pair* const end = pair_at(from, bytes);
  Pair all{};
  for (; end - at >= 8; at += 8) {
    all |= at[0] | at[1] | at[2] | at[3];
    all |= at[4] | at[5] | at[6] | at[7];
  }
  for (; at != end; ++at) all |= *at;
  return all[0] | all[1];
}

// For more, memset is faster than its call is slow.
inline constexpr size_t kMostInline = 256;

LOFT_ALWAYS_INLINE void clear_few(void* from, size_t bytes) {
  auto* at = static_cast<Pair*>(from);
  const Pair* const end = pair_at(from, bytes);
  do {
    *at++ = Pair{};
    LOFT_FORGET(at);  // or the compiler makes the call of it
  } while (at != end);
}

}  // namespace loft::hardened
