// The programs in call frame information: what they say of one instruction, as a rule.
#pragma once

#include <cstdint>

#include "unwind/image.h"
#include "unwind/rule.h"

namespace loft::unwind {

// What an entry (entry.h) says of one instruction. kNone if it is not about it or is malformed.
Rule rule_at(const Image& image, const uint8_t* entry, uintptr_t pc);

}  // namespace loft::unwind
