// What libloft-inspect.so (inspect/) gives to loft: one table, under the name `loft_inspect`. The
// library and loft have nothing else of each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::inspect {

// What the linker calls a place in the code that runs: in a file, so far behind its address 0.
struct CodeName {
  const char* file;  // as the loader knows it; "" for the program itself
  uintptr_t address;
  const uint8_t* build_id;  // nullptr for none
  size_t build_id_bytes;
};

struct Table {
  uint64_t version;

  // Before all others, once, with no lock of loft's held. `own`: in the code that a stack leaves
  // out where it begins; nullptr: none. nullptr, or why stacks cannot be followed here.
  const char* (*begin)(const void* own);
  size_t (*capture)(uintptr_t* frames, size_t most);
  bool (*name_code)(uintptr_t pc, CodeName* name);
};

// Raised with each change of the table or of what its functions mean.
inline constexpr uint64_t kTableVersion = 1;

}  // namespace loft::inspect
