// Free spans by length, for best fit: one list for each length below 64 granules, then four for
// each doubling, and a bit for each list that is not empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/list.h"

namespace loft {

// A run of free granules. Lives in the metadata region; its first and last granule's pagemap
// entries name it, which is how a neighbour that becomes free finds it.
struct Span {
  uintptr_t base;
  size_t granules;
  bool dirty;  // resident as far as we know; a clean span reads as zero
  Span* next;
  Span* prev;
  bool refused;  // the system did not take its pages back
};

class SpanBins {
 public:
  void insert(Span* span) {
    const unsigned bin = bin_of(span->granules);
    bins_[bin].push_front(span);
    present_[bin / 64] |= uint64_t{1} << bin % 64;
  }

  void remove(Span* span) {
    const unsigned bin = bin_of(span->granules);
    bins_[bin].remove(span);
    if (bins_[bin].empty()) present_[bin / 64] &= ~(uint64_t{1} << bin % 64);
  }

  // A span of at least `granules`, from the smallest list that has one; nullptr if none. Only the
  // first list may hold spans that are too short, and of it a bounded number is looked at.
  Span* find(size_t granules) const {
    unsigned bin = bin_of(granules);
    int looks = kLooks;
    for (Span* s = bins_[bin].front(); s != nullptr && looks != 0; s = s->next, --looks) {
      if (s->granules >= granules) return s;
    }
    bin = next_present(bin + 1);
    return bin == kBins ? nullptr : bins_[bin].front();
  }

  // A span from the list of the longest, beyond those that the system refused to take; nullptr if
  // there is none. Of each list a bounded number is looked at.
  Span* longest() const {
    for (unsigned word = kWords; word-- != 0;) {
      for (uint64_t bits = present_[word]; bits != 0;) {
        const unsigned bit = highest_bit(bits);
        int looks = kLooks;
        for (Span* s = bins_[word * 64 + bit].front(); s != nullptr && looks != 0; s = s->next) {
          if (!s->refused) return s;
          --looks;
        }
        bits &= ~(uint64_t{1} << bit);
      }
    }
    return nullptr;
  }

 private:
  static constexpr unsigned kExact = 64;
  static constexpr unsigned kLongestLog = 40;
  static constexpr unsigned kBins = kExact + 4 * (kLongestLog - 6);
  static constexpr unsigned kWords = (kBins + 63) / 64;
  static constexpr int kLooks = 32;

  static unsigned bin_of(size_t granules) {
    if (granules < kExact) return static_cast<unsigned>(granules);
    const unsigned log = highest_bit(granules);
    return kExact + 4 * (log - 6) + static_cast<unsigned>(granules >> (log - 2) & 3);
  }

  unsigned next_present(unsigned bin) const {
    for (unsigned word = bin / 64; word < kWords; ++word) {
      uint64_t bits = present_[word];
      if (word == bin / 64) bits &= ~uint64_t{0} << bin % 64;
      if (bits != 0) return word * 64 + lowest_bit(bits);
    }
    return kBins;
  }

  List<Span> bins_[kBins];
  uint64_t present_[kWords] = {};
};

}  // namespace loft
