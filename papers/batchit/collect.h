// The batches that a thread collects: a set-associative cache of the slabs that it has freed into
// (BatchIt 2, 3.2). A batch is a segment of the slab's free list, built without the slab's owner;
// it grows at its head. Of one allocator, whose thread alone calls it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "snmalloc/links.h"
#include "snmalloc/parameters.h"

namespace snmalloc {

struct Batch {
  uintptr_t head;
  uintptr_t tail;
  uint32_t count;  // 0: the rest says nothing
  uint32_t used;   // when, for lru

  uintptr_t slab() const { return slab_of(head); }
};

class BatchCache {
 public:
  static size_t bytes_of_places() {
    return (sizeof(Batch) * parameters.ways) << parameters.set_bits;
  }

  // `places`: zeroed, as many as the parameters say, for ever.
  explicit BatchCache(Batch* places) : places_(places) {}

  // Adds an object to its slab's batch. Returns the batch that lost its place to it, if any.
  LOFT_ALWAYS_INLINE Batch add(uintptr_t object) {
    const uintptr_t slab = slab_of(object);
    Batch* const set = places_ + set_of(slab) * parameters.ways;
    ++now_;
    for (unsigned way = 0; way < parameters.ways; ++way) {
      Batch& batch = set[way];
      if (batch.count == 0 || batch.slab() != slab) continue;
      Links::set_next(slab, offset(object), offset(batch.head));
      batch.head = object;
      batch.used = now_;
      ++batch.count;
      return {};
    }
    Batch& place = victim(set);
    const Batch evicted = place;
    place = {object, object, 1, now_};
    return evicted;
  }

  // Passes each batch on and forgets it.
  template <class Act>
  void empty(Act act) {
    for (size_t i = 0; i < size_t{parameters.ways} << parameters.set_bits; ++i) {
      if (places_[i].count == 0) continue;
      act(places_[i]);
      places_[i].count = 0;
    }
  }

 private:
  static Offset offset(uintptr_t object) { return static_cast<Offset>(object % kSlab); }

  static size_t set_of(uintptr_t slab) {
    const uint64_t number = slab >> kSlabLog;
    const uint64_t mask = (uint64_t{1} << parameters.set_bits) - 1;
    if (parameters.hash == Hash::kShift) return number & mask;
    return (number * 0x9E3779B97F4A7C15u) >> 32 & mask;
  }

  // A free place, or by the policy (BatchIt 4: the largest; 5.1 asks for others).
  LOFT_NOINLINE Batch& victim(Batch* set) {
    Batch* found = set;
    for (unsigned way = 0; way < parameters.ways; ++way) {
      if (set[way].count == 0) return set[way];
      const bool better = parameters.evict == Evict::kLargest ? set[way].count > found->count
                                                              : set[way].used < found->used;
      if (better) found = &set[way];
    }
    if (parameters.evict == Evict::kFirst) return *set;
    if (parameters.evict != Evict::kRandom) return *found;
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return set[(random_ >> 33) % parameters.ways];
  }

  Batch* places_;
  uint32_t now_ = 0;
  uint64_t random_ = 1;
};

}  // namespace snmalloc
