// The names of the calls that make objects, for reports.
#pragma once

#include "cache/bins.h"

namespace loft::hardened {

const char* name_of(Maker maker);

// Whether that is the name of a form of free or delete.
inline bool frees(const char* call) { return call[0] == 'f' || call[0] == 'd'; }

}  // namespace loft::hardened
