// What the core calls of the hardened modes.
#pragma once

#include "cache/guest.h"

namespace loft::hardened {

extern LOFT_HIDDEN const Guest guest;

}  // namespace loft::hardened
