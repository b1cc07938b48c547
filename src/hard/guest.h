// What the core calls of the hardened modes.
#pragma once

#include "cache/guest.h"

namespace loft::hard {

extern LOFT_HIDDEN const Guest guest;

}  // namespace loft::hard
