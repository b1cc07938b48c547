// Holes: pages of a partly used slab on which no object lives. No metadata lies in objects, so such
// a page can be purged by itself. The slab remembers its holes.
#pragma once

#include <cstddef>

#include "slab/counters.h"
#include "slab/slab.h"

namespace loft {

// Purges the holes of several slabs. Under the lock of the slabs' heap.
class Holes {
 public:
  // Subtracts purged pages from `charged` in the counters of the slab's class.
  explicit Holes(ClassCounters* classes) : classes_(classes) {}

  void purge(Slab* slab);
  size_t purged() const { return purged_; }  // bytes so far

 private:
  void purge(Slab* slab, unsigned first, unsigned count);

  ClassCounters* classes_;
  size_t purged_ = 0;
};

}  // namespace loft
