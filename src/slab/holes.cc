#include "slab/holes.h"

#include "os/os.h"

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
    if (end != page) purge(slab, page, end - page);
    page = end + 1;
  }
}

void Holes::purge(Slab* slab, unsigned first, unsigned count) {
  const size_t page = os::page_size();
  // The system refuses if the program has locked its memory: the pages are to stay.
  if (!os::discard(reinterpret_cast<void*>(slab->base + first * page), count * page)) return;
  slab->gone.add({first, first + count - 1});
  slab->holed = true;
  classes_[slab->size_class].charged.add(-static_cast<unsigned long>(count));
  purged_ += count * page;
}

}  // namespace loft
