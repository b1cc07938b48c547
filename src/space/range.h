// The granules that an acquire of span.h returns.
#pragma once

#include <cstdint>

namespace loft::span {

struct Range {
  uintptr_t base = 0;  // 0: no memory
  bool zero = false;   // every byte reads as zero
};

}  // namespace loft::span
