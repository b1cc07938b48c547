// Discards of several ranges of free memory at a time. To prove one (os::discard) costs a second
// system call and up to three faults, more than the discard itself where few pages hold memory. So
// the last one proves the others: what begins to claim discards that it does not make, a filter or
// an emulator, is not taken away again, so it would claim the last one, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/fault.h"
#include "os/os.h"

namespace loft {

inline constexpr unsigned kMostDiscards = 64;

struct Discard {
  uintptr_t at;
  size_t bytes;
};

// Discards ranges 0 .. count - 1; range_of(i) says which they are. Returns a bit for each range
// that was discarded; the others are as os::discard leaves them.
template <class RangeOf>
uint64_t discard_all(unsigned count, RangeOf range_of) {
  LOFT_CHECK(count <= kMostDiscards);
  if (count == 0) return 0;
  const auto discard = [&](unsigned i, os::Proof proof) {
    const Discard range = range_of(i);
    return uint64_t{os::discard(reinterpret_cast<void*>(range.at), range.bytes, proof)} << i;
  };
  const unsigned last = count - 1;
  uint64_t done = 0;
  for (unsigned i = 0; i < last; ++i) done |= discard(i, os::Proof::kNone);
  const uint64_t proved = discard(last, os::Proof::kByte);
  if (LOFT_LIKELY(proved != 0)) return done | proved;
  // Refused, as for locked pages, or claimed: this one says nothing about the others.
  done = 0;
  for (unsigned i = 0; i < last; ++i) done |= discard(i, os::Proof::kByte);
  return done;
}

}  // namespace loft
