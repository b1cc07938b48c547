#include "slab/holes.h"

namespace loft {

void Holes::add(Slab* slab) {
  const Geometry& shape = slab->shape();
  PageSet used = slab->gone;
  for (unsigned word = 0; word < shape.words; ++word) {
    uint64_t live = ~slab->bits[word] & slab->places_in(word);
    while (live != 0) {
      const unsigned first = lowest_bit(live);
      const unsigned length = trailing_ones(live >> first);
      used.add(slab->pages_of(word * 64 + first, word * 64 + first + length - 1));
      live = length == 64 ? 0 : live & ~(((uint64_t{1} << length) - 1) << first);
    }
  }
  const unsigned pages = slab->pages();
  for (unsigned page = 0; page < pages;) {
    unsigned end = page;
    while (end < pages && !used.has(end)) ++end;
    if (end != page) add_run(slab, page, end - page);
    page = end + 1;
  }
}

void Holes::add_run(Slab* slab, unsigned first, unsigned count) {
  if (count_ == os::kMostRanges) give_back();
  const size_t page = os::page_size();
  ranges_[count_] = {reinterpret_cast<void*>(slab->base + first * page), count * page};
  runs_[count_++] = {slab, first, count};
}

size_t Holes::give_back() {
  if (count_ == 0) return given_back_;
  const uint64_t gone = os::discard_ranges(ranges_, count_);
  for (size_t i = 0; i < count_; ++i) {
    const Run& run = runs_[i];
    // Refused where the program has locked its memory: it asked for the pages to stay.
    if ((gone >> i & 1) == 0) continue;
    run.slab->gone.add({run.first, run.first + run.count - 1});
    run.slab->holed = true;
    classes_[run.slab->size_class].charged.add(-static_cast<unsigned long>(run.count));
    given_back_ += ranges_[i].bytes;
  }
  count_ = 0;
  return given_back_;
}

}  // namespace loft
