#include "os/windows_ranges.h"

namespace loft::os {

size_t Ranges::first_behind(uintptr_t address) const {
  size_t low = 0;
  size_t high = count_;
  while (low != high) {
    const size_t middle = (low + high) / 2;
    if (ranges_[middle].to > address) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Moves the ranges from `from` on by one place up or down.
void Ranges::shift(size_t from, ptrdiff_t by) {
  Range* const first = ranges_ + from;
  __builtin_memmove(first + by, first, (count_ - from) * sizeof(Range));
  count_ += static_cast<size_t>(by);
}

bool Ranges::add(uintptr_t from, uintptr_t to) {
  const size_t i = first_behind(from);
  const bool joins_last = i != 0 && ranges_[i - 1].to == from;
  const bool joins_next = i != count_ && ranges_[i].from == to;
  if (joins_last && joins_next) {
    ranges_[i - 1].to = ranges_[i].to;
    shift(i + 1, -1);
  } else if (joins_last) {
    ranges_[i - 1].to = to;
  } else if (joins_next) {
    ranges_[i].from = from;
  } else {
    if (count_ == kMost) return false;
    shift(i, 1);
    ranges_[i] = {from, to};
  }
  return true;
}

bool Ranges::remove(uintptr_t from, uintptr_t to) {
  const size_t i = first_behind(from);
  if (!contain(from, to)) return true;
  Range& range = ranges_[i];
  if (range.from == from && range.to == to) {
    shift(i + 1, -1);
  } else if (range.from == from) {
    range.from = to;
  } else if (range.to == to) {
    range.to = from;
  } else {
    if (count_ == kMost) return false;
    shift(i, 1);
    ranges_[i].to = from;
    ranges_[i + 1].from = to;
  }
  return true;
}

bool Ranges::contain(uintptr_t from, uintptr_t to) const {
  const size_t i = first_behind(from);
  return i != count_ && ranges_[i].from <= from && to <= ranges_[i].to;
}

}  // namespace loft::os
