// A set of pages of one slab, by number.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/peek.h"
#include "slab/geometry.h"

namespace loft {

inline constexpr unsigned kMostPages = kMaxSlabBytes / 4096;  // 4 KiB is the smallest page size

struct Pages {
  unsigned first;
  unsigned last;
};

class PageSet {
 public:
  // A recent state of a set that others change.
  PageSet peeked() const {
    PageSet now{};
    for (unsigned i = 0; i < 2; ++i) now.words_[i] = peek(words_[i]);
    return now;
  }

  bool has(unsigned page) const { return (words_[page / 64] >> page % 64 & 1) != 0; }
  bool empty() const { return (words_[0] | words_[1]) == 0; }
  unsigned count() const { return count_bits(words_[0]) + count_bits(words_[1]); }
  // How many pages of this set are missing from `now`, a later state of it. Mostly none.
  unsigned count_lost(const PageSet& now) const {
    unsigned lost = 0;
    for (unsigned i = 0; i < 2; ++i) {
      if (words_[i] != now.words_[i]) lost += count_bits(words_[i] & ~now.words_[i]);
    }
    return lost;
  }

  void add(Pages pages) {
    words_[0] |= bits(pages, 0);
    words_[1] |= bits(pages, 64);
  }
  void remove(Pages pages) {
    words_[0] &= ~bits(pages, 0);
    words_[1] &= ~bits(pages, 64);
  }
  bool has_all(Pages pages) const {
    return (bits(pages, 0) & ~words_[0]) == 0 && (bits(pages, 64) & ~words_[1]) == 0;
  }
  bool meets(Pages pages) const {
    return ((words_[0] & bits(pages, 0)) | (words_[1] & bits(pages, 64))) != 0;
  }

 private:
  // The part of [first, last] in [from, from + 64), as bits.
  static constexpr uint64_t bits(Pages pages, unsigned from) {
    if (pages.last < from || pages.first >= from + 64) return 0;
    const unsigned low = pages.first < from ? 0 : pages.first - from;
    const unsigned high = least(pages.last - from, 63u);
    return ~uint64_t{0} >> (63 - high) & ~uint64_t{0} << low;
  }

  uint64_t words_[2];
};
static_assert(kMostPages == 128);

}  // namespace loft
