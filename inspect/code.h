// What the linker calls a place in the code that runs. See files/inspect_table.h.
#pragma once

#include "files/inspect_table.h"

namespace loft::inspect {

bool name_code(uintptr_t pc, CodeName* name);

}  // namespace loft::inspect
