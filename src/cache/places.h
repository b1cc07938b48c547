// A few places for words that are not 0, in a cache line of their own: any thread may put one in
// and take one out, at any time, without a lock. Who takes a word out has what it stands for to
// himself, as who put it in had left it.
//
// Modelled in test/model/places.cc.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/size_class.h"

namespace loft {

template <unsigned kPlaces>
class alignas(kCacheLine) Places {
 public:
  // Into one of the first `places`. False if none of them is empty.
  bool put(uint64_t word, unsigned places) {
    for (unsigned i = 0; i < places; ++i) {
      uint64_t none = 0;
      // Looked at first, relaxed, because a failed exchange takes the line from other processors.
      // Release pairs with the acquire in remove.
      if (places_[i].load(memory_order_relaxed) == 0 &&
          places_[i].compare_exchange_strong(none, word, memory_order_release,
                                             memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // 0 if all are empty.
  uint64_t take() {
    for (unsigned i = 0; i < kPlaces; ++i) {
      if (const uint64_t word = peek(i); word != 0 && remove(i, word)) return word;
    }
    return 0;
  }

  // What is there at the moment. Relaxed: nothing that it stands for may be looked at.
  uint64_t peek(unsigned place) const { return places_[place].load(memory_order_relaxed); }

  // False if the word is there no more. It may have been taken out and put in again: then it stands
  // for the same, and the acquire, which pairs with the release in put, is of the last one.
  bool remove(unsigned place, uint64_t word) {
    return places_[place].compare_exchange_strong(word, 0, memory_order_acquire,
                                                  memory_order_relaxed);
  }

 private:
  Atomic<uint64_t> places_[kPlaces];
};

}  // namespace loft
