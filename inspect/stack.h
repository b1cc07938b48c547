// The stack of the calling thread, for a profiler inside malloc and for reports of misuse. What it
// promises stands in files/inspect.h and files/inspect_table.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace loft::inspect {

const char* begin(const void* own);
size_t capture(uintptr_t* frames, size_t most);

}  // namespace loft::inspect
