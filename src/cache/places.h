// A few places for nonzero words, in a cache line of their own. Any thread may insert and remove
// words at any time, without a lock. The thread that removes a word owns what the word stands for,
// in the state in which the inserting thread left it.
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
  // Inserts into one of the first `places` places. False if none is empty.
  bool put(uint64_t word, unsigned places) {
    for (unsigned i = 0; i < places; ++i) {
      uint64_t none = 0;
      // The relaxed load comes first because a failed exchange takes the line from other
      // processors. Release pairs with the acquire in remove.
      if (places_[i].load(memory_order_relaxed) == 0 &&
          places_[i].compare_exchange_strong(none, word, memory_order_release,
                                             memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // Removes any word. 0 if all places are empty.
  uint64_t take() {
    for (unsigned i = 0; i < kPlaces; ++i) {
      if (const uint64_t word = peek(i); word != 0 && remove(i, word)) return word;
    }
    return 0;
  }

  // The word in the place at the moment. Relaxed: the caller must not access what the word stands
  // for.
  uint64_t peek(unsigned place) const { return places_[place].load(memory_order_relaxed); }

  // False if the place no longer holds the word. The word may have been removed and inserted again.
  // It then stands for the same thing, and the acquire pairs with the release in the latest put.
  bool remove(unsigned place, uint64_t word) {
    return places_[place].compare_exchange_strong(word, 0, memory_order_acquire,
                                                  memory_order_relaxed);
  }

 private:
  Atomic<uint64_t> places_[kPlaces];
};

}  // namespace loft
