// Objects above 4 MiB: what is known of each, the pagemap entries that lead to it, and their
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span.h"

namespace loft {

struct Large {
  uintptr_t base;
  size_t bytes;  // usable, a multiple of the page size, <= granules << kGranuleLog
  size_t granules;
  size_t front;     // granules of a guarded object that lie in front of it
  size_t asked;     // bytes; the part that the program requested
  uint16_t shift;   // bytes of a guarded object's pages that lie in front of it
  uint16_t record;  // of a guarded sample (hardened/guarded_samples.h)
  bool moved;       // its pages came by os::move_pages: a mapping of their own
  bool kept;        // free: the descriptor is among a thread's unused ones
  bool guarded;     // by hardened/guarded.h
  uint8_t maker;    // for a guarded object: what its caller notes there
  bool sampled;  // there is a sample of it (profile/samples.h); set and cleared by the floors above

  uintptr_t start() const { return base + shift; }  // the program's address of it
};

namespace large {

inline Large* at(Entry entry) { return metadata::at_index<Large>(entry.index()); }

}  // namespace large
}  // namespace loft

// Which pagemap entries lead to a large object. Of an object of less than kHuge bytes each granule
// has one. A huge object has one at its first granule alone, or the table would take 8 bytes for
// each 64 KiB that the program may never touch. The way from elsewhere in it is a coarse table,
// with 4 bytes for each kHuge of the window. free's fast path knows nothing of this: an entry of no
// object leads it to the slow path.

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

// Large objects: each has a span of its own and is rounded to pages, not to a power of two. A freed
// object stays resident in the span lists, so that the next of its size needs no system call. Pages
// behind its end, up to the end of its last granule, may be resident, too: the limits therefore
// count granules. Any thread may call any function, but no two calls may use one object at once.

// Unused descriptors of one thread, so that objects come and go without a lock for them. Each is
// marked as kept and linked by its base. All zero means none.
struct Descriptors {
  Large* first;
  unsigned count;
};

// Allocates `asked` bytes. `alignment`: a power of two. nullptr without memory. *zero: whether
// every byte is known to read as zero, as in fresh and purged pages. `spare`: the thread's unused
// descriptors, if any; allocate takes one from there, release puts one there.
void* allocate(size_t asked, size_t alignment, bool* zero, Descriptors* spare = nullptr);

void release(Large* object, Descriptors* spare = nullptr);

// Returns all of them to the metadata.
void release_descriptors(Descriptors* spare);

// How many granules an object of `bytes` takes.
inline size_t granules_for(size_t bytes) { return round_up(bytes, kGranule) >> kGranuleLog; }

// For hardened/guarded.cc: an object's bytes in the statistics, 0 before it is made and when it is
// gone.
void account(size_t before, size_t after);

// Resizes the object to `asked` bytes, in place or by moving its pages. Returns its address.
// nullptr, with the object unchanged, if the caller has to copy.
void* resize(Large* object, size_t asked);

// The same in place alone: into free pages behind it, or without its last pages.
void* expand(Large* object, size_t asked);

struct LargeTotals {
  size_t bytes;        // in use
  size_t allocations;  // ever made
  size_t cache_hits;   // of these, on pages still resident
  size_t resizes;      // to another length in pages, without a copy
  size_t moves;        // of these, to another place
};
LargeTotals totals();

// Makes committed pages read as zero; `at` and `bytes` are multiples of the page size. In a long
// range, pages that hold memory are cleared and keep it: should the program touch them, that takes
// a fifth of the time of new pages. A range mostly without memory is discarded.
void clear(void* at, size_t bytes);

}  // namespace loft::large
