#include "os/symbols.h"

namespace loft::os {

bool is_own_library() { return false; }

}  // namespace loft::os
