// The entries of call frame information, which compilers write for exceptions and debuggers into
// `.eh_frame`, and the linker sorts in `.eh_frame_hdr`. An entry (FDE) describes one function by a
// short program in bytes; a common entry (CIE) begins it. Nothing is believed: no byte outside of
// the image's sections is read, and every loop ends with them.
#pragma once

#include <cstdint>

#include "unwind/bytes.h"
#include "unwind/image.h"

namespace loft::unwind {

// What a common entry says.
struct Common {
  Bytes instructions;
  uint64_t code_unit = 1;
  int64_t data_unit = 1;
  uint8_t address_form = 0;
  bool has_extra_length = false;
  bool signal = false;

  bool read(Bytes bytes);
};

// One function's entry, with its common one.
struct Function {
  Common common;
  uintptr_t begin = 0;
  Bytes instructions;

  // False if the entry is malformed, or not about the instruction.
  bool read(const Image& image, const uint8_t* entry, uintptr_t pc);
};

// The entry of the function that an instruction belongs to, by the sorted table. nullptr without.
const uint8_t* find_entry(const Image& image, uintptr_t pc);

// What was reckoned of a common entry. Nearly all functions of a library have the same.
struct CommonPrint {
  uintptr_t at = 0;
  uint64_t print = 0;
};

// A number of all the bytes that decide what an entry says. 0 if the entry is malformed, or longer
// than is worth it. `last` is of the same image.
uint64_t fingerprint(const Image& image, const uint8_t* entry, CommonPrint* last);

}  // namespace loft::unwind
