// A message: freed objects of one slab on their way home, written into one of them (the carrier).
// Its payload is a piece of the slab's bitmap, so the owner ORs a few words and touches no other
// freed object (a batch that costs the same however many objects it carries: ISMM'24 3.2).
//
//   link      next message, 48 bits | index of the first bitmap word carried, 16 bits
//   words     as many bitmap words as fit behind the link, no more than the slab has left
//
// The carrier's own bit is among them. Which slab and which owner follows from the carrier's
// address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"

namespace loft {

struct Message {
  Atomic<uint64_t> link;

  uint64_t* words() { return reinterpret_cast<uint64_t*>(this + 1); }
};

inline constexpr unsigned kLinkPointerBits = 48;
inline constexpr uint64_t kLinkPointerMask = (uint64_t{1} << kLinkPointerBits) - 1;

inline Message* next_in(uint64_t link) {
  return reinterpret_cast<Message*>(link & kLinkPointerMask);
}
constexpr unsigned first_word_in(uint64_t link) {
  return static_cast<unsigned>(link >> kLinkPointerBits);
}
constexpr uint64_t end_link(unsigned first_word) {
  return uint64_t{first_word} << kLinkPointerBits;
}

// Messages linked by one thread before anybody else sees them. Relaxed everywhere: the exchange or
// release store that hands the chain over publishes it whole.
struct Chain {  // all zero: empty
  Message* first;
  Message* last;

  // `message` ends with a null link.
  void append(Message* message) {
    if (first == nullptr) {
      first = message;
    } else {
      const uint64_t link = last->link.load(memory_order_relaxed);
      last->link.store(link | reinterpret_cast<uint64_t>(message), memory_order_relaxed);
    }
    last = message;
  }
};

}  // namespace loft
