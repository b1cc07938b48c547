// Restartable sequences, on a system that has none.
#include "os/restartable.h"

namespace loft::os {

constinit Restartable restartable;

Sequences find_restartable() { return Sequences::kFail; }
void keep_fences() {}
bool fence_processor(unsigned) { return false; }

}  // namespace loft::os
