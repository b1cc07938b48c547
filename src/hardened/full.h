// malloc and free with hardened=full. Each call takes its slow path, which ends here: the bins that
// malloc's fast path pops from are empty ones, and the bounds of free's are 0.
#pragma once

namespace loft::hardened {

// From now on. When the library is loaded, before the program has a second thread; the calling
// thread has no block. `note` calls note_before for each object that the program has. False, and
// nothing has changed, if one of them returned false.
bool begin(bool (*note)());

}  // namespace loft::hardened
