#pragma once

#include <stdint.h>

namespace loft::inspect {

// Whether a word can be read. The system call is one that every program with threads or signals
// makes, and it changes nothing: the action asked for does not exist, and the system finds that out
// after it has read the set.
bool is_readable(uintptr_t at);

}  // namespace loft::inspect
