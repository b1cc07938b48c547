// The objects that the program had before the library was ready, in the first moments of a process:
// they have no tags (hardened/tag.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::hardened {

// Before the program has a second thread. False if there are too many.
bool note_before(const void* p);

// Whether p is one of them.
bool is_from_before(const void* p);

// The same, and it is none from now on.
bool forget_before(const void* p);

// Objects of no bytes (hardened=full): addresses of their own in a region that nobody can read or
// write. It lies apart from the window, so that no check of a freed pointer takes them for another.

// nullptr without address space, or if there are too many: the caller makes an object of one byte.
void* make_nothing();

// Whether p lies in the region.
bool is_nothing(const void* p);

// Stops the program if there is no such object at p.
void check_nothing(const char* call, const void* p);
void free_nothing(const char* call, void* p);

}  // namespace loft::hardened
