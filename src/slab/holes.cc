#include "slab/holes.h"

#include "os/os.h"
#include "space/discards.h"

namespace loft {

void Holes::purge(Slab* slab) {
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
    if (end != page) add({slab, page, end - page});
    page = end + 1;
  }
}

void Holes::add(Hole hole) {
  if (found_ == kAtOnce) purge_found();
  holes_[found_++] = hole;
}

// The system refuses if the program has locked its memory: the pages are to stay.
void Holes::purge_found() {
  const size_t page = os::page_size();
  const uint64_t done = discard_all(found_, [&](unsigned i) {
    const Hole& hole = holes_[i];
    return Discard{hole.slab->base + hole.first * page, hole.count * page};
  });
  for (unsigned i = 0; i < found_; ++i) {
    if ((done >> i & 1) == 0) {
      refused_ = true;
      continue;
    }
    const Hole& hole = holes_[i];
    hole.slab->gone.add({hole.first, hole.first + hole.count - 1});
    hole.slab->holed = true;
    classes_[hole.slab->size_class].charged.add(-static_cast<size_t>(hole.count));
    purged_ += hole.count * page;
  }
  found_ = 0;
}

size_t Holes::finish() {
  purge_found();
  return purged_;
}

}  // namespace loft
