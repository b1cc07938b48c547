// Holes: pages inside partly used slabs on which no object lives. No metadata lies in objects, so
// such a page can go back to the system alone; the slab remembers that it is gone.
#pragma once

#include <cstddef>

#include "os/os.h"
#include "slab/counters.h"
#include "slab/slab.h"

namespace loft {

// Gathers holes of several slabs and gives them back in few system calls; the last ones when it
// goes. Under the lock of the slabs' heap.
class Holes {
 public:
  // Takes the pages that go off what is `charged` in the counters of their slab's class.
  explicit Holes(ClassCounters* classes) : classes_(classes) {}
  ~Holes() { give_back(); }
  Holes(const Holes&) = delete;
  Holes& operator=(const Holes&) = delete;

  void add(Slab* slab);

  // Gives back what is gathered. The bytes that went so far.
  size_t give_back();

 private:
  struct Run {
    Slab* slab;
    unsigned first;
    unsigned count;
  };
  void add_run(Slab* slab, unsigned first, unsigned count);
  ClassCounters* classes_;
  os::Range ranges_[os::kMostRanges];
  Run runs_[os::kMostRanges];
  size_t count_ = 0;
  size_t given_back_ = 0;
};

}  // namespace loft
