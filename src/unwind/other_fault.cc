// What a fault was, where nobody has asked the processor yet.
#include "unwind/fault.h"

namespace loft::unwind {

int wrote(const void*) { return -1; }
bool is_call(const void*, uintptr_t) { return false; }

}  // namespace loft::unwind
