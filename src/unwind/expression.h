// The expressions of call frame information: a little stack machine. Its values are not computed
// but described, as a rule has to say where something is for every frame at this instruction. What
// compilers and linkers write comes down to a register, a number and at most one load: a procedure
// linkage table (whose expression asks for the instruction's own address, which is known), a stack
// that was aligned anew, a frame that the system made for a signal.
#pragma once

#include <cstdint>

#include "unwind/bytes.h"

namespace loft::unwind {

// base + offset, or what memory has there, plus `more`.
struct Described {
  // DWARF's numbers of registers; and what else a value may start from.
  static constexpr uint64_t kRbx = 3, kRbp = 6, kRsp = 7, kPc = 16;
  static constexpr uint64_t kNumber = 1000, kCfa = 1001;

  uint64_t base = kNumber;
  int64_t offset = 0;
  bool loaded = false;
  int64_t more = 0;

  bool is_number() const { return base == kNumber && !loaded; }
};

// Runs an expression. `pushed` is on its stack at the beginning if it is not null. False if a value
// cannot be described, or the expression is malformed.
bool describe(Bytes expression, uintptr_t pc, const Described* pushed, Described* result);

}  // namespace loft::unwind
