// A slab: 64 KiB of objects of one size, or more for large ones, and three lists of its free ones.
// It belongs to one heap for life. The record lies outside the slab, in loft's metadata, so that
// object i is at base + i * size and an aligned one needs no arithmetic when it is freed.
//
//   free        its heap allocates from it
//   local_free  its heap's thread frees to it; it becomes `free` when that is empty
//   messages    other threads free to it, by compare-and-swap; its heap claims all by one exchange.
//               With BATCHIT_QUEUE=batches a list of batches
//   batches     those that its heap has claimed; each becomes `free` when that is empty
//
// An object is in at most one list, or on a heap's `delayed`, or in a batch; else it is in use.
// used = objects in use, or freed by others and not yet received.
//
// The child of a fork relies on the order of the owner's stores, see fork.cc: an object that passes
// from one list to another is in none in between, and `used` errs only upwards.
#pragma once

#include "base/atomic.h"
#include "base/size_class.h"
#include "pages/links.h"
#include "pages/policy.h"
#include "space/metadata.h"
#include "space/pagemap.h"

namespace engine::pages {

class Heap;

// The low bits of `messages`, which are zero in an object's address.
enum State : uintptr_t {
  kWatched = 0,    // in its heap's queue: the heap will see what comes
  kUnwatched = 1,  // full, and in no queue; the list is empty
  kNotified = 2,   // as kUnwatched, but one object of it is on its way to the heap's delayed list
};
inline constexpr uintptr_t kStates = 3;

inline Object* list_of(uintptr_t messages) {
  return reinterpret_cast<Object*>(messages & ~kStates);
}

// What the first object of a batch says in `message`: count 16 | next 48.
struct Batch {
  static constexpr unsigned kAddressBits = 48;

  Object* next;
  uint32_t count;

  static Batch of(uintptr_t message, uint64_t key) {
    const auto word = reinterpret_cast<uintptr_t>(Links::reveal(message, key));
    constexpr uintptr_t kAddress = (uintptr_t{1} << kAddressBits) - 1;
    return {reinterpret_cast<Object*>(word & kAddress),
            static_cast<uint32_t>(word >> kAddressBits)};
  }
  uintptr_t hidden(uint64_t key) const {
    const uintptr_t word = reinterpret_cast<uintptr_t>(next) | uintptr_t{count} << kAddressBits;
    return Links::hide(reinterpret_cast<const Object*>(word), key);
  }
};

struct alignas(64) Slab {
  // The owner's.
  Object* free = nullptr;
  Object* local_free = nullptr;
  Object* batches = nullptr;
  Slab* next = nullptr;  // in the heap's queue
  Slab* previous = nullptr;
  uint32_t used = 0;
  uint32_t made = 0;     // objects that were ever in a list; the memory behind them is untouched
  bool watched = false;  // in the queue

  // Constant, on a line that no one writes while others read it.
  alignas(64) Heap* heap = nullptr;
  uintptr_t base = 0;
  uint64_t key = 0;
  uint32_t size = 0;
  uint32_t capacity = 0;
  loft::SizeClass size_class = 0;

  // Everybody's.
  alignas(64) loft::Atomic<uintptr_t> messages{kWatched};

  bool holds(const Object* p) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - base;
    return offset < uintptr_t{capacity} * size && offset % loft::kAlignment == 0;
  }
  void link(Object* p, const Object* next_one) const { p->link = Links::hide(next_one, key); }
  Object* next_of(const Object* p) const {
    Object* const found = Links::reveal(p->link, key);
    if constexpr (Links::kChecked) {
      if (LOFT_UNLIKELY(found != nullptr && !holds(found))) stop_at(p, size);
    }
    return found;
  }

  // `used` first: an object that the child of a fork finds in use counts.
  Object* take() {
    Object* const p = free;
    ++used;
    loft::compiler_fence();
    free = next_of(p);
    return p;
  }
  void put(Object* p) {
    link(p, local_free);
    loft::compiler_fence();
    local_free = p;
    loft::compiler_fence();
    --used;
  }

  // Puts objects that never were in a list into the empty `free`. False if there are none left.
  bool extend();

  // Takes over a claimed list of messages. Returns how many there were.
  uint32_t receive(Object* first) {
    return policy.queue == QueueOf::kObjects ? receive_objects(first) : receive_batches(first);
  }
  // Walks them, because the list does not say how long it is (3.1).
  uint32_t receive_objects(Object* first);
  // Reads the first object of each batch, which is allocated before the others, and writes none.
  uint32_t receive_batches(Object* first);

  // Takes over a batch that came to its heap.
  void join(Object* first);

  // Fills the empty `free` with a batch that has been claimed. False if there is none.
  bool open_batch() {
    Object* const first = batches;
    if (first == nullptr) return false;
    batches = batch_at(first).next;
    loft::compiler_fence();
    free = first;
    return true;
  }

  // Fills the empty `free` from the other lists. Returns the messages received.
  uint32_t collect();

 private:
  Batch batch_at(const Object* first) const;
};

constexpr size_t granules_of(loft::SizeClass c) {
  constexpr size_t kLeastObjects = 8;
  return loft::class_size(c) * kLeastObjects <= loft::kGranule ? 1 : kLeastObjects / 2;
}

inline Slab* slab_at(loft::Entry entry) { return loft::metadata::at_index<Slab>(entry.index()); }

// The slab of an object in a slab.
inline Slab* slab_of(const Object* p) { return slab_at(loft::pagemap.of(p)); }

}  // namespace engine::pages
