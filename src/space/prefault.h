// Memory populated ahead of its use. A program that builds a tree or a table would meet a fault on
// every page. What grows gets the pages of its next objects in one call:
//
//   in a slab     a 24th of what the class has, and no more than the refill needs or 64 KiB
//   in a granule  one huge page for the next slabs, where 64 MiB are in use and the class has a
//                 part in them. It counts as free resident memory, and is given up by the second
//                 tick without a need.
//
// docs/decisions/074-first-touch.md, 104-pages-of-the-next-objects.md
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::prefault {

// Longer objects may stay untouched for the most part. Of these, each page or each second one has a
// first byte, which a malloc with headers in front of its objects would write.
inline constexpr size_t kLongest = 8192;

// --- In a slab ---

// For a class whose slabs had `filled` bytes of memory before a refill that needs `needed` more:
// how many bytes to populate, from the first page that it needs on.
size_t share(size_t filled, size_t needed);

// False if the system refuses.
bool populate(uintptr_t at, size_t bytes);

// --- In a granule ---

// Whether a class of which so many bytes are in use may take what is ahead.
bool serves(size_t filled);

// For a need of so many bytes, by a class of which `filled` are in use. Populates a huge page, if
// nothing resident can serve the need. False if the class does not take what is ahead. Takes the
// locks of the spans.
bool prepare(size_t needed, size_t filled);

// --- Under the lock of the spans from here on. ---

// Hands out so many bytes; 0 if fewer are ahead.
uintptr_t take(size_t length);

// Lists what is ahead as a resident free span.
void give_up();

// Gives up what is ahead if nothing was taken since the last tick.
void tick();

}  // namespace loft::prefault
