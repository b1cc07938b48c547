// Free runs of units by length, for best fit: one list for each length below 64, four lists for
// each doubling above, and a bit for each non-empty list. The spans of the window are such runs, in
// granules (space/free_spans.h); so are the blocks of a heap of the program's own (heaps/blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/list.h"

namespace loft {

// `Run` has a length(), below 2^kLongestLog, and the members of a List.
template <class Run, unsigned kLongestLog = 40>
class RunBins {
 public:
  void insert(Run* run) {
    const unsigned bin = bin_of(run->length());
    bins_[bin].push_front(run);
    present_[bin / 64] |= uint64_t{1} << bin % 64;
  }

  void remove(Run* run) {
    const unsigned bin = bin_of(run->length());
    bins_[bin].remove(run);
    if (bins_[bin].empty()) present_[bin / 64] &= ~(uint64_t{1} << bin % 64);
  }

  // A run of at least `length`, from the shortest list that has one; nullptr if none. Only the
  // first list may hold runs that are too short; a bounded number of its runs are examined.
  Run* find(size_t length) const {
    if (length >> kLongestLog != 0) return nullptr;
    unsigned bin = bin_of(length);
    int looks = kLooks;
    for (Run* run = bins_[bin].front(); run != nullptr && looks != 0; run = run->next, --looks) {
      if (run->length() >= length) return run;
    }
    bin = next_present(bin + 1);
    return bin == kBins ? nullptr : bins_[bin].front();
  }

  // The first run for which fits(run) holds, from all lists that may hold runs of `length`; nullptr
  // if none does.
  template <class Fits>
  Run* find_any(size_t length, Fits&& fits) const {
    if (length >> kLongestLog != 0) return nullptr;
    for (unsigned bin = next_present(bin_of(length)); bin != kBins; bin = next_present(bin + 1)) {
      for (Run* run = bins_[bin].front(); run != nullptr; run = run->next) {
        if (fits(run)) return run;
      }
    }
    return nullptr;
  }

  // Calls visit(run) for each run of at least `length`, the shorter ones first. visit may remove
  // it, or insert it again with the same length.
  template <class Visit>
  void for_each(size_t length, Visit&& visit) const {
    for (unsigned bin = next_present(bin_of(length)); bin < kBins; bin = next_present(bin + 1)) {
      for (Run* run = bins_[bin].front(); run != nullptr;) {
        Run* const next = run->next;
        if (run->length() >= length && !visit(run)) return;
        run = next;
      }
    }
  }

  // A run from the list of the longest, except runs that the system refused to take; nullptr if
  // none. A bounded number of runs of each list are examined.
  Run* longest() const {
    for (unsigned word = kWords; word-- != 0;) {
      for (uint64_t bits = present_[word]; bits != 0;) {
        const unsigned bit = highest_bit(bits);
        int looks = kLooks;
        for (Run* run = bins_[word * 64 + bit].front(); run != nullptr && looks != 0;
             run = run->next) {
          if (!run->refused) return run;
          --looks;
        }
        bits &= ~(uint64_t{1} << bit);
      }
    }
    return nullptr;
  }

 private:
  static constexpr unsigned kExact = 64;
  static constexpr unsigned kBins = kExact + 4 * (kLongestLog - 6);
  static constexpr unsigned kWords = (kBins + 63) / 64;
  static constexpr int kLooks = 32;

  static unsigned bin_of(size_t length) {
    if (length < kExact) return static_cast<unsigned>(length);
    const unsigned log = highest_bit(length);
    return kExact + 4 * (log - 6) + static_cast<unsigned>(length >> (log - 2) & 3);
  }

  unsigned next_present(unsigned bin) const {
    for (unsigned word = bin / 64; word < kWords; ++word) {
      uint64_t bits = present_[word];
      if (word == bin / 64) bits &= ~uint64_t{0} << bin % 64;
      if (bits != 0) return word * 64 + lowest_bit(bits);
    }
    return kBins;
  }

  List<Run> bins_[kBins];
  uint64_t present_[kWords] = {};
};

}  // namespace loft
