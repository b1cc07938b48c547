// The server of the option `socket`. See files/inspect_table.h.
#pragma once

#include "files/inspect_table.h"

namespace loft::inspect {

const char* serve(const Served& loft, const char* path);

}  // namespace loft::inspect
