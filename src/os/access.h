// What a fault was, as the processor has told it.
#pragma once

#include <cstdint>

namespace loft::os {

// `context`: the third argument of a signal's handler. 1: a write; 0: a read; -1: not known.
int wrote(const void* context);

// Whether the fault at the address was of an instruction that was to be executed there.
bool is_call(const void* context, uintptr_t address);

}  // namespace loft::os
