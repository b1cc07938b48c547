// Holes: pages inside partly used slabs on which no object lives. No metadata lies in objects, so
// such a page can go back to the system alone; the slab remembers that it is gone.
#pragma once

#include <cstddef>

#include "slab/counters.h"
#include "slab/slab.h"

namespace loft {

// Gives holes of several slabs back. Under the lock of the slabs' heap.
class Holes {
 public:
  // Takes the pages that go off what is `charged` in the counters of their slab's class.
  explicit Holes(ClassCounters* classes) : classes_(classes) {}

  void give_back(Slab* slab);
  size_t given_back() const { return given_back_; }  // bytes so far

 private:
  void give_back(Slab* slab, unsigned first, unsigned count);

  ClassCounters* classes_;
  size_t given_back_ = 0;
};

}  // namespace loft
