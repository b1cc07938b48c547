// The free spans of the window, and their lists by length in granules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/run_bins.h"

namespace loft {

enum SpanState : uint8_t {
  kClean,     // mapped; reads as zero
  kDirty,     // resident, as far as loft knows
  kUnmapped,  // addresses given back, too: another mapping may be there
};
inline constexpr unsigned kSpanStates = 3;

// A run of free granules. The descriptor lives in the metadata region. The pagemap entries of the
// first and last granule name it, so that a neighbour that becomes free finds it.
struct Span {
  uintptr_t base;
  size_t granules;
  SpanState state;
  Span* next;
  Span* prev;
  bool refused;  // the system refused to take its pages back

  size_t length() const { return granules; }
};

using SpanBins = RunBins<Span>;

}  // namespace loft
