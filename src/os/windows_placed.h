// Whose memory an address is.
#pragma once

namespace loft::os {

// Whether nobody but loft can have memory there: `place` has reserved it, or nothing is.
bool is_no_other_memory(const void* p);

}  // namespace loft::os
