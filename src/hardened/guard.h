// malloc and free with hardened=guard. malloc's fast path stays, on the second bins that a profile
// uses (sampling/meter.h); each free takes the slow path, which marks the object.
#pragma once

namespace loft::guard {

// From now on. When the library is loaded, before the program has a second thread. False without
// memory, and nothing has changed.
bool begin();

}  // namespace loft::guard
