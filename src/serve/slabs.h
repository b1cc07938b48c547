// The map of the heap as JSON: what lies at which addresses, and whose it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft {

class Output;

namespace serve {

// Ranges that one answer lists. A range has a hundred bytes of text.
inline constexpr size_t kMostRanges = 16384;

// Lists the ranges from the address `from` on; if there are more than `most`, "next" is where to go
// on. Takes no lock while others write: a range whose owner is just changing it may be left out, or
// be told as it was.
void write_slabs(Output& output, uint64_t from, size_t most = kMostRanges);

}  // namespace serve
}  // namespace loft
