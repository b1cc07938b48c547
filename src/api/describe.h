// What reports of misuse say of an address, and the program's own function for them.
#pragma once

#include "base/text.h"

namespace loft {

// What lies there: an object and what it is a part of, in one line. It reads tables without their
// locks, which the caller may hold: beside running threads it may be what was a moment ago.
Text describe_address(const void* p);

}  // namespace loft
