// The hardened modes: what the core calls of them, and how each begins.
#pragma once

#include "cache/guest.h"

namespace loft::hardened {

extern LOFT_HIDDEN const Guest guest;

// malloc and free with hardened=full. Each call takes its slow path, which ends here: the bins that
// malloc's fast path pops from are empty ones, and the bounds of free's are 0.

// From now on. When the library is loaded, before the program has a second thread; the calling
// thread has no block. `note` calls note_before for each object that the program has. False, and
// nothing has changed, if one of them returned false.
bool begin(bool (*note)());

}  // namespace loft::hardened

// malloc and free with hardened=guard. malloc's fast path stays, on the second bins that a profile
// uses (sampling/meter.h); each free takes the slow path, which marks the object.

namespace loft::guard {

// From now on. When the library is loaded, before the program has a second thread. False without
// memory, and nothing has changed.
bool begin();

}  // namespace loft::guard
