// Which addresses loft has reserved. Windows keeps an allocation (a reservation of addresses, with
// or without memory) whole until all of it is released, so a part that is unmapped loses its memory
// and keeps its addresses. To map memory there again is right only if the reservation is loft's:
// the system does not say whose it is. Neighbours join, so that the ranges are few.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::os {

class Ranges {
 public:
  // False if there is no room for one more.
  bool add(uintptr_t from, uintptr_t to);
  // Takes away a part of one range. False, and nothing has changed, without room for the rest.
  bool remove(uintptr_t from, uintptr_t to);
  bool contain(uintptr_t from, uintptr_t to) const;
  size_t count() const { return count_; }

 private:
  struct Range {
    uintptr_t from;
    uintptr_t to;
  };
  size_t first_behind(uintptr_t address) const;  // the first range that ends behind it
  void shift(size_t from, ptrdiff_t by);

  static constexpr size_t kMost = 256;
  size_t count_ = 0;
  Range ranges_[kMost] = {};  // ascending; between two lies a gap
};

}  // namespace loft::os
