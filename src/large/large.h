// Large objects: spans of their own, rounded to pages and not to powers of two. A freed one stays
// resident in the span lists, so that the next of its size makes no system call. Any thread may
// call any function; the object itself must not be used by two calls at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/metadata.h"
#include "space/pagemap.h"

namespace loft {

struct Large {
  uintptr_t base;
  size_t bytes;  // usable, a multiple of the page size, <= granules << kGranuleLog
  size_t granules;
  size_t asked;  // bytes; what the program wanted of them
  bool moved;    // its pages came by os::move_pages and lie in a mapping of their own
  bool kept;     // free, in a cache
};

namespace large {

// Descriptors that nobody uses, marked as kept and linked by their bases: a thread's own, so that
// objects that come and go take no lock for them. All zero is none.
struct Descriptors {
  Large* first;
  unsigned count;  // for the heir of a thread that died in a fork, about right
};

inline Large* at(Entry entry) { return metadata::at_index<Large>(entry.index()); }

// For `asked` bytes. `alignment`: a power of two. nullptr without memory. *zero: whether every byte
// is known to read as zero, as those of fresh and purged pages. `spare`: the thread's, if it has
// any; its descriptor comes from there and goes there.
void* allocate(size_t asked, size_t alignment, bool* zero, Descriptors* spare = nullptr);

void release(Large* object, Descriptors* spare = nullptr);

// Gives all of them up.
void release_descriptors(Descriptors* spare);

// How many granules an object of so many bytes takes.
inline size_t granules_for(size_t bytes) { return round_up(bytes, kGranule) >> kGranuleLog; }

// Gives an object another length that the same granules have room for.
void set_length(Large* object, size_t bytes);

// A kept object goes to the program again, with `bytes` bytes of the granules it has.
inline void use_again(Large* object, size_t bytes, size_t asked) {
  if (LOFT_UNLIKELY(bytes != object->bytes)) set_length(object, bytes);
  object->asked = asked;
  object->kept = false;
}

// Makes the object long enough for `asked` bytes where it is, or by moving its pages. Returns its
// address, or nullptr and leaves it as it was when the caller has to copy.
void* resize(Large* object, size_t asked);

struct Totals {
  size_t bytes;        // in use or kept
  size_t allocations;  // ever made
  size_t cache_hits;   // of these, on pages that were still resident
  size_t resizes;      // to another length in pages, without a copy
  size_t moves;        // of these, to another place
};
Totals totals();

}  // namespace large
}  // namespace loft
