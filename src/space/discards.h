// Discards of several ranges of free memory at a time. To prove one (os::discard) costs a second
// system call and up to three faults, more than the discard itself where few pages hold memory. So
// one proves the others. It comes last, because a filter that begins to claim discards that it does
// not make is not taken away again. It is the least aligned one, because an emulator whose host has
// larger pages claims the ranges that these do not divide.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "os/fault.h"
#include "os/os.h"

namespace loft {

inline constexpr unsigned kMostDiscards = 64;

// The heap may have huge pages from now on.
void note_huge_pages();

// Called before a part of the heap loses its memory. A huge page that lies partly in it is split.
// Otherwise the system keeps the page whole until it runs short of memory, though it no longer
// counts all of it as resident.
void split_at_ends(uintptr_t from, size_t length);

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
    split_at_ends(range.at, range.bytes);
    return uint64_t{os::discard(reinterpret_cast<void*>(range.at), range.bytes, proof)} << i;
  };
  const auto alignment = [&](unsigned i) {
    const Discard range = range_of(i);
    return lowest_bit(range.at | range.bytes);
  };
  unsigned proof = 0;
  for (unsigned i = 1; i < count; ++i) proof = alignment(i) < alignment(proof) ? i : proof;
  const auto others = [&](os::Proof how) {
    uint64_t done = 0;
    for (unsigned i = 0; i < count; ++i) done |= i != proof ? discard(i, how) : 0;
    return done;
  };
  const uint64_t done = others(os::Proof::kNone);
  const uint64_t proved = discard(proof, os::Proof::kByte);
  // If it was refused, as for locked pages, or claimed, it says nothing about the others.
  return LOFT_LIKELY(proved != 0) ? done | proved : others(os::Proof::kByte);
}

}  // namespace loft
