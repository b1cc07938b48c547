#include "pages/batches.h"

#include "base/macros.h"
#include "space/metadata.h"

namespace engine::pages {

// On the heap's first free of another heap's object. The cache lasts as long as the heap, for ever.
void Batches::open() {
  mode_ = Mode::kAlone;
  if (!policy.batching) return;
  const size_t count = size_t{policy.ways} << policy.sets_log;
  places_ = static_cast<Place*>(loft::metadata::allocate_apart(count * sizeof(Place)));
  if (places_ != nullptr) mode_ = Mode::kBatching;
}

// The record's address stands for the slab: it is at hand, and the record is not read.
Batches::Place* Batches::set_of(const Slab* slab) const {
  const uint64_t n = reinterpret_cast<uintptr_t>(slab) / loft::kMetadataUnit;
  const uint64_t set = policy.hash == Hash::kMultiply
                           ? (n * 0x9E3779B97F4A7C15u >> 32) >> (32 - policy.sets_log)
                           : n & ((uint64_t{1} << policy.sets_log) - 1);
  return places_ + set * policy.ways;
}

// Of a full set.
Batches::Place* Batches::victim(Place* set) {
  Place* chosen = set;
  switch (policy.evict) {
    case Evict::kFirst:
      break;
    case Evict::kRandom:
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      chosen = set + (random_ >> 33) % policy.ways;
      break;
    case Evict::kLargest:
      for (Place* p = set; p != set + policy.ways; ++p) {
        if (p->count > chosen->count) chosen = p;
      }
      break;
    case Evict::kLru:
      // Ages, not times: the clock may wrap.
      for (Place* p = set; p != set + policy.ways; ++p) {
        if (clock_ - p->touched > clock_ - chosen->touched) chosen = p;
      }
      break;
  }
  return chosen;
}

// The place is empty before the objects leave, so that the child of a fork does not send them
// twice.
void Batches::send_place(Place& place, Tally& tally) {
  Slab* const slab = place.slab;
  tally.batches.add(1);
  tally.batch_objects.add(place.count);
  place.slab = nullptr;
  loft::compiler_fence();
  send(slab, place.first, place.last, place.count, tally);
}

void Batches::add(Slab* slab, Object* p, Tally& tally) {
  tally.frees_remote.add(1);
  if (LOFT_UNLIKELY(mode_ != Mode::kBatching)) {
    if (mode_ == Mode::kUnknown) open();
    if (mode_ == Mode::kAlone) return send_alone(slab, p, tally);
  }
  Place* const set = set_of(slab);
  ++clock_;
  Place* empty = nullptr;
  for (Place* place = set; place != set + policy.ways; ++place) {
    if (LOFT_LIKELY(place->slab == slab)) {
      slab->link(p, place->first);
      loft::compiler_fence();
      place->first = p;
      ++place->count;
      place->touched = clock_;
      return;
    }
    if (place->slab == nullptr) empty = place;
  }
  if (empty == nullptr) {
    empty = victim(set);
    tally.evictions.add(1);
    send_place(*empty, tally);
  }
  slab->link(p, nullptr);
  empty->first = p;
  empty->last = p;
  empty->count = 1;
  empty->touched = clock_;
  loft::compiler_fence();
  empty->slab = slab;
}

void Batches::flush(Tally& tally) {
  if (places_ == nullptr) return;
  const size_t count = size_t{policy.ways} << policy.sets_log;
  for (size_t i = 0; i < count; ++i) {
    if (places_[i].slab != nullptr) send_place(places_[i], tally);
  }
}

}  // namespace engine::pages
