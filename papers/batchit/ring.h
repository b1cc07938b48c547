// The link from the tail of a batch to its head (BatchIt 3.2, second): a displacement in bytes and
// the number of objects, in one word. The receiver takes the message for the tail of a segment of
// the slab's free list, and needs to walk nothing.
#pragma once

#include <cstdint>

namespace snmalloc {

//   displacement, signed 48 | count 16
//
// Both objects are in one slab of 64 KiB, which has at most 4096.
class Ring {
 public:
  constexpr explicit Ring(uint64_t word) : word_(word) {}
  constexpr Ring(uintptr_t tail, uintptr_t head, unsigned count)
      : word_(uint64_t{head - tail} << 16 | count) {}

  constexpr uintptr_t head(uintptr_t tail) const {
    return tail + static_cast<uintptr_t>(static_cast<int64_t>(word_) >> 16);
  }
  constexpr unsigned count() const { return word_ & 0xffff; }
  constexpr uint64_t word() const { return word_; }

 private:
  uint64_t word_;
};

}  // namespace snmalloc
