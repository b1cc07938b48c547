// What is known of one executable or library that lies in memory.
#pragma once

#include <cstdint>

#include "unwind/bytes.h"

namespace loft::unwind {

struct Image {
  uintptr_t begin = 0;  // its code
  uintptr_t end = 0;
  Section header;   // .eh_frame_hdr, or empty
  Section entries;  // the mapping that has .eh_frame, or empty
  bool reads_code = false;

  bool covers(uintptr_t pc) const { return pc - begin < end - begin; }
};

}  // namespace loft::unwind
