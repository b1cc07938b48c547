// BatchIt (sections 2 and 3.1): a thread's cache of lists of objects that it freed and that are
// other heaps', one for each of a few slabs. A list is a piece of the slab's free list, and goes
// there by one compare-and-swap. Memory is bounded by the number of lists: each is at most a slab.
#pragma once

#include "pages/messages.h"
#include "pages/policy.h"

namespace engine::pages {

class Batches {
 public:
  // Frees an object of the slab, which is another heap's: into a batch, or at once without them.
  void add(Slab* slab, Object* p, Tally& tally);

  // Sends all. Also in the child of a fork, for a thread that is no more.
  void flush(Tally& tally);

 private:
  // slab != nullptr: the list first..last is whole, and its objects are nowhere else.
  struct Place {
    Slab* slab;
    Object* first;
    Object* last;
    uint32_t count;
    uint32_t touched;  // when, by `clock_`
  };
  enum class Mode : uint8_t { kUnknown, kAlone, kBatching };

  void open();
  Place* set_of(const Slab* slab) const;
  Place* victim(Place* set);
  static void send_place(Place& place, Tally& tally);

  Place* places_ = nullptr;
  uint64_t random_ = 1;
  uint32_t clock_ = 0;
  Mode mode_ = Mode::kUnknown;
};

}  // namespace engine::pages
