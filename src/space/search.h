// Where the granules for a span come from. For space/span.cc alone, under its lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/span_bins.h"

namespace loft {

// What an acquire returns.
struct Granules {
  uintptr_t base = 0;  // 0: no memory
  bool zero = false;   // every byte reads as zero
};

namespace search {

// The first granules of a listed span; of none for nullptr.
Granules take_from(Span* s, size_t granules);

// Spans of different states do not join, and a long object that comes again and again would take
// as many addresses anew, and as much memory, once a part of its span was purged. Looks at the
// longest of each state.
Granules take_in_two_parts(size_t granules);

// What is free last of all, in one part or two, and as many new granules as it lacks: for one that
// comes a little longer each time, or whose span has lost its first granule to a slab.
Granules take_last_and_more(size_t granules);

}  // namespace search
}  // namespace loft
