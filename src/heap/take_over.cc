// Slabs change owners. A heap without a free object of a class takes over a slab before it takes
// new memory. The donor is unused at the moment, or has too many slabs. Memory then grows with live
// data, and not with the number of threads that were once busy, nor with one thread's lead over
// another. Hoard (Berger et al., ASPLOS 2000, section 3) and a3alloc (section 2) move sparse
// superblocks through a heap that all share. Here they move directly, on demand.
//
// The taker holds the locks of both heaps. Other threads may go by the old owner, from an earlier
// read of the pagemap, or see the new one early. Whoever returns the object to its slab looks the
// owner up again, under the lock of the heap for which it does so: that heap loses no slab
// meanwhile.
//
//   bin       free pushes onto the bin of the old owner's thread. malloc may hand the object out
//             again. A flush puts back only what is the heap's (Heap::put_back).
//   batch     free adds to a batch for the old owner, or the batch enters an outbox for it. When
//             posted, a bucket goes to the owner of its first carrier's slab. As always, it may
//             hold messages for several owners (remote/outbox.h). A heap forwards messages of
//             other owners whole (Heap::receive), or single records.
//   kept      a medium object in the cache of the old owner's thread stays there and serves it. The
//             thread gives it back, or lengthens it, by the owner that it reads under its heap's
//             lock.
//
// A slab with objects in caches or in transit is never empty, so no such object meets a slab that
// was destroyed or recut. The slab's base and size class do not change.
#include "base/peek.h"
#include "heap/heap.h"
#include "heap/registry.h"
#include "os/os.h"

namespace loft {

namespace {

constexpr unsigned kSlabLooks = 4;  // per list
// Per call. With 4, a service of 16 threads that take turns had a tenth more memory at its peak:
// what waiting threads have free was not found.
constexpr unsigned kHeapLooks = 16;
// Of these, so many are drained at most: a drain may take a millisecond.
constexpr unsigned kHeapDrains = 4;

// A heap without a refill for this long is idle. A shorter time would let running threads take each
// other's slabs. A longer one would strand slabs at threads that wait for a processor.
constexpr uint64_t kIdleNs = 1'000'000;
// A thread idle for a time between these two has finished its work and will work again. Its cache
// holds many objects of the first slab of each class, which would come back one by one. So the heap
// keeps that slab.
constexpr uint64_t kAsleepNs = 50'000'000;
constexpr uint64_t kAwayNs = 10'000'000'000;

// The next heap to sample. Shared by all heaps, to spread them. Relaxed: any order is correct.
constinit Atomic<unsigned> next_look{0};

// Calls visit(other) for some of `existing` heaps, until it returns true. Returns whether it did.
template <class Visit>
bool sample(unsigned existing, Visit visit) {
  const unsigned looks = least(kHeapLooks, existing);
  const unsigned first = next_look.fetch_add(looks, memory_order_relaxed);
  for (unsigned i = 0; i < looks; ++i) {
    if (visit(registry::at((first + i) % existing + 1))) return true;
  }
  return false;
}

size_t used_bytes(const Slab& slab) {
  return (slab.shape().objects - slab.free) * size_t{slab.shape().size};
}

// Whether 1/`share` of the slab is free and resident. A slab that is hardly used yet has no memory
// to offer, and objects of it in the owner's cache would take a longer way back.
bool saves_memory(const Slab& slab, unsigned share) {
  const size_t bytes = size_t{slab.shape().granules} << kGranuleLog;
  return slab.charged_pages() * os::page_size() >= used_bytes(slab) + bytes / share;
}

void move(HeapCounters::Adopted& from, HeapCounters::Adopted& to, const Slab& slab) {
  const Geometry& shape = slab.shape();
  const auto move_one = [](Counter& less, Counter& more, size_t n) {
    less.add(-n);
    more.add(n);
  };
  move_one(from.slab_bytes, to.slab_bytes, size_t{shape.granules} << kGranuleLog);
  move_one(from.allocated_bytes, to.allocated_bytes, used_bytes(slab));
  move_one(from.charged_pages, to.charged_pages, slab.charged_pages());
}

}  // namespace

// A slab of many small objects serves its thread for long, and two threads would share its cache
// lines as long. So only classes with few objects per slab have a surplus. Exception: at least a
// third of the objects returned to the class, since the heap was created, came from other threads,
// which touch these objects anyway.
Heap::Surplus Heap::surplus(SizeClass size_class) const {
  constexpr unsigned kFewObjects = 64;
  const ClassCounters& counters = counters_.classes[size_class];
  const size_t received = counters.received.get();
  const bool shared = received != 0 && received >= counters.put.get() / 2;
  if (!shared && geometry(size_class).objects > kFewObjects) return Surplus::kNone;
  const Available& available = available_[size_class];
  if (peek(available.slabs) <= kKept) return Surplus::kNone;
  const auto some = [&](Fullness fullness) {
    return !available.lists[static_cast<unsigned>(fullness)].seems_empty();
  };
  const bool sparse = some(Fullness::kSparser) || some(Fullness::kSparse);
  if (shared && (sparse || some(Fullness::kHalf))) return Surplus::kEighthFree;
  return sparse ? Surplus::kHalfFree : Surplus::kNone;
}

void Heap::help(Heap& other) {
  other.drain(kDrainBytes);
  other.inbox_.complete();
  other.drain(kDrainBytes);
  counters_.helped.add(1);
}

bool Heap::take_from_others(SizeClass size_class) {
  const unsigned existing = registry::count();
  if (existing < 2) return false;
  const uint64_t now = os::now_ns();
  unsigned drains = 0;
  return sample(existing, [&](Heap* other) {
    const uint64_t idle = other->idle_ns(now);
    if (other == this) return false;
    // A sleeping thread will write to the objects in its cache. In classes that share cache lines,
    // another thread would then write to the same lines.
    const bool is_idle_donor = idle >= kIdleNs && fills_cache_lines(size_class);
    const Surplus surplus = other->surplus(size_class);
    const bool pending = idle != 0 && drains < kHeapDrains && other->inbox_.maybe_pending();
    if (!is_idle_donor && surplus == Surplus::kNone && !pending && !other->abandoned()) {
      return false;
    }
    if (!other->lock_.try_lock()) {
      if (pending) stall_.note(other->id_, other->lock_, os::now_ns());
      return false;
    }
    if (pending) {
      ++drains;
      help(*other);
      // A heap at work fills them again.
      if (idle >= kIdleNs || other->abandoned()) other->trim_spares(0);
    }
    bool taken = false;
    // abandoned() is read again under the lock: a thread may have adopted the heap and taken
    // objects.
    if (is_idle_donor || other->abandoned()) {
      const bool has_cache = !other->abandoned() && !other->is_idle();
      const bool wakes = has_cache && idle >= kAsleepNs && idle < kAwayNs;
      taken = take_over(*other, size_class, wakes ? 1 : 0, false);
    } else if (surplus != Surplus::kNone) {
      taken = take_over(*other, size_class, kKept, surplus == Surplus::kEighthFree);
    }
    other->lock_.unlock();
    return taken;
  });
}

// An idle heap keeps runs that are mostly in use: what its thread frees of a run that has gone
// would travel.
bool Heap::take_run_over(Heap& other, unsigned pages) {
  size_t moved = 0;
  // Read again under the lock: a heap of samples may be that since a moment.
  if (other.keeps_runs()) return false;
  if (!mediums_.take_over(other.mediums_, pages, !other.abandoned(), id_, &moved)) return false;
  other.counters_.medium_out.add(-moved);
  counters_.medium_out.add(moved);
  is_purged_.store(false, memory_order_relaxed);
  return true;
}

bool Heap::take_run_from_others(unsigned pages) {
  const unsigned existing = registry::count();
  if (existing < 2 || keeps_runs()) return false;
  const uint64_t now = os::now_ns();
  unsigned drains = 0;
  return sample(existing, [&](Heap* other) {
    const uint64_t idle = other->idle_ns(now);
    if (other == this || other->keeps_runs()) return false;
    if (idle < kIdleNs && !other->abandoned()) return false;
    if (!other->lock_.try_lock()) return false;
    if (drains < kHeapDrains && other->inbox_.maybe_pending()) {
      ++drains;
      help(*other);
    }
    const bool taken = take_run_over(*other, pages);
    other->lock_.unlock();
    return taken;
  });
}

bool Heap::take_over(Heap& other, SizeClass size_class, unsigned kept, bool eighths) {
  for (const Fullness fullness : {Fullness::kSparser, Fullness::kSparse, Fullness::kHalf}) {
    const bool by_eighths = fullness == Fullness::kHalf;
    if (by_eighths && !eighths) break;
    if (by_eighths) kept = 1;  // the owner's next refill starts with the first
    Slab* slab = other.available_[size_class].lists[static_cast<unsigned>(fullness)].front();
    for (unsigned looks = 1; slab != nullptr; ++looks) {
      if (saves_memory(*slab, by_eighths ? 8 : 2) && kept-- == 0) break;
      slab = looks < kSlabLooks ? slab->next : nullptr;
    }
    if (slab == nullptr) continue;
    other.unlist(slab);
    --other.available_[size_class].held;
    ++available_[size_class].held;
    slab::set_owner(slab, id_);
    list(slab, fullness);

    move(other.counters_.adopted, counters_.adopted, *slab);
    const size_t unused = slab->charged_pages() * os::page_size() - used_bytes(*slab);
    other.unused_ -= unused;
    other.told_.see_less(other.unused_);
    unused_ += unused;
    if (slab->shape().granules == 1) {
      --other.granules_;
      ++granules_;
    }
    is_purged_.store(false, memory_order_relaxed);
    counters_.slabs_taken_over.add(1);
    return true;
  }
  return false;
}

}  // namespace loft
