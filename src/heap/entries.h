// Which pagemap entries lead to a large object. Of an object of less than kHuge bytes each granule
// has one. A huge object has one at its first granule alone, or the table would take 8 bytes for
// each 64 KiB that the program may never touch. The way from elsewhere in it is a coarse table,
// with 4 bytes for each kHuge of the window. free's fast path knows nothing of this: an entry of no
// object leads it to the slow path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/large_object.h"
#include "space/span.h"

namespace loft::large {

inline constexpr size_t kHuge = span::kAskFrom;

inline bool is_huge(size_t granules) { return granules >= kHuge >> kGranuleLog; }

namespace entries {

// Names the object in the pieces that begin in [from, end); 0: none is there.
LOFT_COLD void name_pieces(uintptr_t from, uintptr_t end, uint32_t index);
LOFT_COLD Entry entry_by_pieces(const void* p);

inline size_t count(size_t granules) { return is_huge(granules) ? 1 : granules; }
inline uintptr_t limit(const Large& object, size_t granules) {
  return object.base + (granules << kGranuleLog);
}

}  // namespace entries

// Enters a new object; removes all entries of one that is gone, or that has moved.
inline void enter(const Large& object) {
  const size_t granules = object.granules;
  const uint32_t index = metadata::index_of(&object);
  if (LOFT_UNLIKELY(is_huge(granules))) {
    entries::name_pieces(object.base, entries::limit(object, granules), index);
  }
  pagemap.fill(object.base, entries::count(granules), Entry(kNoHeap, kLarge, index));
}
inline void leave(const Large& was) {
  if (LOFT_UNLIKELY(is_huge(was.granules))) {
    entries::name_pieces(was.base, entries::limit(was, was.granules), 0);
  }
  pagemap.fill(was.base, entries::count(was.granules), Entry{});
}

// The object has had `before` granules until now. Its entries are right all the time for the
// granules that it keeps.
void enter_anew(const Large& object, size_t before);

// The entry of the granule of p, which lies in the window. Anywhere in a huge object, that of its
// first granule. What others change meanwhile may be missed.
inline Entry entry_around(const void* p) {
  const Entry entry = pagemap.of(p);
  return LOFT_LIKELY(entry.word() != 0) ? entry : entries::entry_by_pieces(p);
}

}  // namespace loft::large
