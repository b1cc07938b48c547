// What is resident behind large objects. One of 36 KiB has a granule of 64 KiB, and where another
// object was before, the other 28 KiB have memory still, of no use to anybody while the object
// lives. Giving it back at once would cost each object a system call, and most live briefly: so
// that is done for those that have lived for a while, for all when the program asks, and at once
// where the limit is hard.
//
// For each granule a record says whether it is such an object's last one, and since when. Its owner
// writes it, and takes it away before the pages are of use again; who gives pages back claims the
// record first, and the owner waits for that one step. So nothing is asked of an object that is not
// there any more, and an owner takes no lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::tails {

// The tick of span, modulo 256, since which a tail has been one; or that there is none.
using Since = uint16_t;
inline constexpr Since kNoTail = 256;
Since now();

// From `end`, where a large object ends, to the end of its last granule, which has no record, pages
// may be resident. Nobody else frees or resizes the object meanwhile.
void note(uintptr_t end, Since since = now());

// The large object whose last granule ends at `limit` ends there no longer, or will use its tail.
// Waits while its pages are given back; kNoTail if they are not resident any more.
Since forget(uintptr_t limit);

// Gives back the tails that were noted so many ticks ago, or longer; 0: all. Returns the bytes.
size_t give_back(uint32_t ticks);

// Nothing is noted: there is nothing to wait for.
bool none();

size_t given_back_bytes();  // so far

void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::tails
