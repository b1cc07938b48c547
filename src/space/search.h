// The search for the granules of a new span. Callers hold the lock of space/span.cc.
#pragma once

#include <cstddef>

#include "space/range.h"
#include "space/span_bins.h"

namespace loft::search {

using span::Range;

// Takes the first granules of a listed span. An empty range if `s` is nullptr.
Range take_from(Span* s, size_t granules);

// Takes granules from two adjacent spans of different states, which never join. Otherwise a long
// object that is allocated again and again would take new addresses, and as much memory, each time
// a part of its span was purged. Looks at the longest span of each state.
Range take_in_two_parts(size_t granules);

// Takes the free span that ends at the frontier, or the last two, and adds as many new granules as
// are missing. For an object (a) that is a little longer each time, or (b) whose span has lost its
// first granule to a slab.
Range take_last_and_more(size_t granules);

}  // namespace loft::search
