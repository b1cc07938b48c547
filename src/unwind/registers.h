// The registers that a stack is followed by.
#pragma once

#include <cstdint>

namespace loft::unwind {

struct Registers {
  uintptr_t pc = 0;
  uintptr_t stack = 0;
  uintptr_t frame = 0;
  uintptr_t rbx = 0;  // x86-64 alone: some code reckons from it where its frames are
};

}  // namespace loft::unwind
