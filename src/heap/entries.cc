#include "heap/entries.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/peek.h"

namespace loft::large {

namespace entries {

namespace {

// Where the window is cut into pieces of kHuge: the object in which a piece begins, by its index in
// the metadata; 0 for any other. A huge object has the beginning of one piece at least. So an
// address in an object has the object's index at the beginning of its piece, or of the next one.
// Relaxed, as entries of the pagemap: an object's owner writes while others have no pointer into
// it.
constinit Atomic<uint32_t> pieces[kLargestWindow / kHuge + 1];

constexpr unsigned kHugeLog = highest_bit(kHuge);

size_t piece_of(uintptr_t address) { return (address - pagemap.base) >> kHugeLog; }

}  // namespace

void name_pieces(uintptr_t from, uintptr_t end, uint32_t index) {
  for (size_t i = piece_of(from + kHuge - 1); i < piece_of(end + kHuge - 1); ++i) {
    pieces[i].store(index, memory_order_relaxed);
  }
}

Entry entry_by_pieces(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  for (size_t i = piece_of(address); i <= piece_of(address) + 1; ++i) {
    const uint32_t index = pieces[i].load(memory_order_relaxed);
    if (index == 0) continue;
    const auto* const object = metadata::at_index<Large>(index);
    if (address - peek(object->base) < peek(object->granules) << kGranuleLog) {
      return Entry(kNoHeap, kLarge, index);
    }
  }
  return Entry{};
}

}  // namespace entries

void enter_anew(const Large& object, size_t before) {
  enter(object);
  const size_t had = entries::count(before);
  const size_t has = entries::count(object.granules);
  if (had > has) pagemap.fill(entries::limit(object, has), had - has, Entry{});
  if (LOFT_LIKELY(!is_huge(before))) return;
  const uintptr_t from =
      is_huge(object.granules) ? entries::limit(object, object.granules) : object.base;
  entries::name_pieces(from, entries::limit(object, before), 0);
}

}  // namespace loft::large
