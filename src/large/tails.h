// Tails: resident pages behind large objects. An object of 36 KiB has a granule of 64 KiB. If
// another object was there before, the other 28 KiB may still have memory, useless while the object
// lives. Purging it at once would cost each object a system call, and most live briefly. Tails are
// therefore purged (a) for objects that have lived for a while; (b) all of them, if the program
// asks; (c) at once under a hard limit.
//
// Each granule has a record: whether it is the last one of such an object, and since when. The
// owner writes the record, and clears it before the pages are used again. A purge first claims the
// record, and the owner waits for that one step. A purge therefore never touches an object that is
// gone, and an owner takes no lock unless its record is claimed.
//
// A granule whose tail is noted is in a list. A purge looks at these, and not at the window.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::tails {

// The tick of span, modulo 256, at which a tail was noted; or kNoTail.
using Since = uint16_t;
inline constexpr Since kNoTail = 256;
Since now();

// Notes that pages may be resident between `end`, the end of a large object, and the end of its
// last granule, which has no record. Nobody else frees or resizes the object meanwhile.
void note(uintptr_t end, Since since = now());

// Called before the large object whose last granule ends at `limit` changes its end or uses its
// tail. Waits while the tail is being purged. kNoTail if there is none any more.
Since forget(uintptr_t limit);

// Purges the tails that were noted at least `ticks` ticks ago; 0: all. Returns the bytes.
size_t purge(uint32_t ticks);

// True if nothing is noted: there is nothing to wait for.
bool none();

size_t purged_bytes();  // so far

void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::tails
