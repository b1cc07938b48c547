// Which objects the program has at one moment, for loft_visit_objects. Nobody counts them one by
// one: an object of a slab is the program's if it is not free in the slab's bitmap, and neither in
// a cache nor on its way back to its heap.
//
//   small    not free in its slab; not in a bin, a depot, or a second bin of the profile's; not in
//            an open batch, in a message, or in a processor's stack of others'
//   medium   in use by its word, and not the one in a thread's bin, which is unmarked
//   large    not kept
//   of a heap of the program's own   in use by its block
//   sampled  as the former; the place that is kept for it (profile/samples.h) is none
//
// An object changes between these under its heap's lock, or in a call of the thread whose cache it
// passes. So with all locks held, and no other thread within a call, each object is in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heaps/user_heap.h"

namespace loft {

// A bit for each place in a range where an object may start.
class Starts {
 public:
  Starts() = default;
  ~Starts();
  Starts(const Starts&) = delete;
  Starts& operator=(const Starts&) = delete;

  // Begins without any. False without memory.
  bool begin(uintptr_t base, uintptr_t end);

  void add(uintptr_t at) {
    if (has_place(at)) words_[word_of(at)] |= bit_of(at);
  }
  void remove(uintptr_t at) {
    if (has_place(at)) words_[word_of(at)] &= ~bit_of(at);
  }
  // The first at or behind `at`; 0: none.
  uintptr_t next(uintptr_t at) const;
  // How many there are in [from, to), which begins and ends at granules.
  size_t count(uintptr_t from, uintptr_t to) const;

 private:
  size_t bytes() const;
  bool has_place(uintptr_t at) const { return at - base_ < end_ - base_; }
  size_t word_of(uintptr_t at) const { return (at - base_) / kAlignment / 64; }
  uint64_t bit_of(uintptr_t at) const { return uint64_t{1} << (at - base_) / kAlignment % 64; }

  uintptr_t base_ = 0;
  uintptr_t end_ = 0;
  uint64_t* words_ = nullptr;
};

// Adds the objects that the program has in the window, with `only` those of that heap alone. All
// locks are held. False without memory. With kKept, the places that samples keep are among them.
enum class With : uint8_t { kObjects, kKept };
bool note_objects(Starts& live, const UserHeap* only, With with);

// Calls visit(context, object, usable bytes) for each object that the program had when this was
// called, in the order of addresses, until it returns another value than 0. No lock is held
// meanwhile. `only`: of that heap alone; otherwise of all but those over regions. Returns how many
// were visited; 0 and ENOMEM without memory.
using VisitObject = int (*)(void* context, void* object, size_t bytes);
size_t visit_objects(const UserHeap* only, VisitObject visit, void* context);

}  // namespace loft
