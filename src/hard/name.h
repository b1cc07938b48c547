// The names of the calls that make objects, for reports.
#pragma once

#include "cache/bins.h"

namespace loft::hard {

const char* name_of(Maker maker);

}  // namespace loft::hard
