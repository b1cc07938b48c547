// The objects that the program had before the library was ready, in the first moments of a process:
// they have no tags (hardened/tag.h).
#pragma once

#include <cstddef>

namespace loft::hardened {

// Before the program has a second thread. False if there are too many.
bool note_before(const void* p);

// Whether p is one of them.
bool is_from_before(const void* p);

// The same, and it is none from now on.
bool forget_before(const void* p);

}  // namespace loft::hardened
