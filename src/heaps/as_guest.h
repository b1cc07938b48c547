// What the core calls of the program's own heaps.
#pragma once

#include "cache/guest.h"

namespace loft::user_heaps_guest {

extern LOFT_HIDDEN const Guest guest;

}  // namespace loft::user_heaps_guest
