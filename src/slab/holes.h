// Holes: pages of a partly used slab on which no object lives. No metadata lies in objects, so such
// a page can be purged by itself. The slab remembers its holes.
#pragma once

#include <cstddef>

#include "slab/counters.h"
#include "slab/slab.h"

namespace loft {

// Purges the holes of several slabs, some at a time. Under the lock of the slabs' heap, from the
// first call to the end of finish. Until then, the slabs stay.
class Holes {
 public:
  // Subtracts purged pages from `charged` in the counters of the slab's class.
  explicit Holes(ClassCounters* classes) : classes_(classes) {}

  void purge(Slab* slab);
  size_t finish();                           // the bytes purged
  size_t purged() const { return purged_; }  // so far
  bool refused() const { return refused_; }  // some hole was, as locked pages are

 private:
  struct Hole {
    Slab* slab;
    uint32_t first;
    uint32_t count;
  };
  static constexpr unsigned kAtOnce = 16;

  void add(Hole hole);
  void purge_found();

  ClassCounters* classes_;
  size_t purged_ = 0;
  bool refused_ = false;
  unsigned found_ = 0;
  Hole holes_[kAtOnce];  // the first found_ are set
};

}  // namespace loft
