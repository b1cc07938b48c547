// A set of pages of one medium run, by number.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace loft {

inline constexpr size_t kMostRunBytes = size_t{16} << 20;
inline constexpr unsigned kMostRunPages = kMostRunBytes / 4096;  // 4 KiB is the smallest page size

struct PageRow {
  unsigned first;
  unsigned count;
};

class PageBits {
 public:
  void add(PageRow row) {
    for_words(row, [&](unsigned word, uint64_t bits) { words_[word] |= bits; });
  }
  void remove(PageRow row) {
    for_words(row, [&](unsigned word, uint64_t bits) { words_[word] &= ~bits; });
  }
  unsigned count_in(PageRow row) const {
    unsigned sum = 0;
    for_words(row, [&](unsigned word, uint64_t bits) { sum += count_bits(words_[word] & bits); });
    return sum;
  }
  // The first page behind all of the set.
  unsigned end() const {
    for (unsigned word = kMostRunPages / 64; word-- != 0;) {
      if (words_[word] != 0) return word * 64 + highest_bit(words_[word]) + 1;
    }
    return 0;
  }
  // Makes this set equal to `other` in the row.
  void copy(const PageBits& other, PageRow row) {
    for_words(row, [&](unsigned word, uint64_t bits) {
      words_[word] = (words_[word] & ~bits) | (other.words_[word] & bits);
    });
  }

  // Calls visit(row) for each row of pages of the set within `row`.
  template <class Visit>
  void for_each_row(PageRow row, Visit visit) const {
    const unsigned end = row.first + row.count;
    for (unsigned first = row.first; (first = search(first, end, 0)) != end;) {
      const unsigned next = search(first, end, ~uint64_t{0});
      visit(PageRow{first, next - first});
      first = next;
    }
  }

 private:
  // The first page from `page` on, below `end`, whose bit differs from those of `flip`; else `end`.
  unsigned search(unsigned page, unsigned end, uint64_t flip) const {
    while (page < end) {
      const uint64_t bits = (words_[page / 64] ^ flip) >> page % 64;
      if (bits != 0) return least(page + lowest_bit(bits), end);
      page = (page / 64 + 1) * 64;
    }
    return end;
  }

  template <class Visit>
  static void for_words(PageRow row, Visit visit) {
    while (row.count != 0) {
      const unsigned in_word = least(row.count, 64 - row.first % 64);
      visit(row.first / 64, ~uint64_t{0} >> (64 - in_word) << row.first % 64);
      row.first += in_word;
      row.count -= in_word;
    }
  }

  uint64_t words_[kMostRunPages / 64];
};

}  // namespace loft
