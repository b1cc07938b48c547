// Slabs change hands. A heap that has no object of a class takes a slab over from one that nobody
// uses at the moment, or that has too many of them, before it takes new memory: memory then grows
// with what is live, and not with the number of threads that were busy once, or with how far one
// thread is ahead of another. Hoard (Berger et al., ASPLOS 2000, section 3) and a3alloc (section 2)
// move sparse superblocks to a heap that all share, and from there to whom needs one; here they go
// directly, when there is need.
//
// Both heaps' locks are held. Who still takes the old owner for the owner, because of what he read
// in the pagemap before, or hears the new name early, is put right by whoever comes to a lock:
//
//   free pushes onto the bin of the old owner's thread. malloc may hand the object out from there
//     as before, and what a flush gives back is looked up under the heap's lock (Heap::put_back).
//   free adds to a batch, or a batch is put into an outbox, for the old owner. A bucket arrives by
//     the name that the slab of its first carrier has when it is posted, and may have messages for
//     several owners, as ever (remote/outbox.h). A heap passes on what is not its own: a message
//     as it is (Heap::drain), or one record of it.
//
// A slab that has objects in caches or on their way does not become empty, so none of these ever
// meets a slab that is gone or was cut anew; and its base and size class stay as they are.
#include "base/peek.h"
#include "heap/heap.h"
#include "heap/registry.h"
#include "os/os.h"

namespace loft {

namespace {

constexpr unsigned kSlabLooks = 4;             // in each list
constexpr unsigned kHeapLooks = 4;             // of one call
constexpr size_t kDrainBytes = 16 * kGranule;  // of each of these, twice

// A heap without a refill for so long is idle. A shorter time would let running threads take each
// other's slabs; a longer one would leave slabs with threads that wait for a processor.
constexpr uint64_t kIdleNs = 1'000'000;
// A thread that has waited for a time between these two has done its work and will work again. Much
// of the first slab of each class is in its cache, and would come back object by object: the heap
// keeps that slab.
constexpr uint64_t kAsleepNs = 50'000'000;
constexpr uint64_t kAwayNs = 10'000'000'000;

// The next heap to look at. All heaps share it, so that they spread. Relaxed: any order will do.
constinit Atomic<unsigned> next_look{0};

size_t used_bytes(const Slab& slab) {
  return (slab.shape().objects - slab.free) * size_t{slab.shape().size};
}

// Whether a part of the slab, one of `share`, is free and has memory. One that was hardly used yet
// has none to offer, and what its owner's thread keeps in its cache would have to go a longer way
// home.
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

// Of many small objects, one slab serves its thread for long, and two threads share its lines for
// as long: only classes with few objects a slab, unless at least a third of what came home of the
// class, since the heap was made, came from others, who have these objects in their hands anyway.
Heap::Surplus Heap::surplus(SizeClass size_class) const {
  constexpr unsigned kFewObjects = 64;
  const ClassCounters& counters = counters_.classes[size_class];
  const unsigned long received = counters.received.get();
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

bool Heap::take_from_others(SizeClass size_class) {
  const unsigned existing = registry::count();
  if (existing < 2) return false;
  const uint64_t now = os::now_ns();
  bool taken = false;
  for (unsigned looks = 0; looks < kHeapLooks && !taken; ++looks) {
    Heap* other = registry::at(next_look.fetch_add(1, memory_order_relaxed) % existing + 1);
    const uint64_t idle = other->idle_ns(now);
    if (other == this) continue;
    // A sleeping thread will write to the objects in its cache. In classes that share cache lines,
    // another thread would then write to the same lines.
    const bool sleeps = idle >= kIdleNs && fills_cache_lines(size_class);
    const Surplus surplus = other->surplus(size_class);
    const bool pending = idle != 0 && other->inbox_.maybe_pending();
    if (!sleeps && surplus == Surplus::kNone && !pending && !other->parked()) continue;
    if (!other->lock_.try_lock()) {
      if (pending) stall_.note(other->id_, other->lock_, os::now_ns());
      continue;
    }
    if (pending) {
      other->drain(kDrainBytes);
      other->inbox_.complete();
      other->drain(kDrainBytes);
      other->trim_spares(0);
      counters_.helped.add(1);
    }
    // Asked again under the lock: a thread may have adopted the heap and taken objects.
    if (sleeps || other->parked()) {
      const bool has_cache = !other->parked() && !other->rests();
      const bool returns = has_cache && idle >= kAsleepNs && idle < kAwayNs;
      taken = take_over(*other, size_class, returns ? 1 : 0, false);
    } else if (surplus != Surplus::kNone) {
      taken = take_over(*other, size_class, kKept, surplus == Surplus::kEighthFree);
    }
    other->lock_.unlock();
  }
  return taken;
}

bool Heap::take_over(Heap& other, SizeClass size_class, unsigned kept, bool eighths) {
  for (const Fullness fullness : {Fullness::kSparser, Fullness::kSparse, Fullness::kHalf}) {
    const bool half = fullness == Fullness::kHalf;
    if (half && !eighths) break;
    if (half) kept = 1;  // the owner's next refill begins with the first
    Slab* slab = other.available_[size_class].lists[static_cast<unsigned>(fullness)].front();
    for (unsigned looks = 1; slab != nullptr; ++looks) {
      if (saves_memory(*slab, half ? 8 : 2) && kept-- == 0) break;
      slab = looks < kSlabLooks ? slab->next : nullptr;
    }
    if (slab == nullptr) continue;
    other.unlist(slab);
    slab::set_owner(slab, id_);
    list(slab, fullness);

    move(other.counters_.adopted, counters_.adopted, *slab);
    if (slab->shape().granules == 1) {
      --other.granules_;
      ++granules_;
    }
    rested_.store(false, memory_order_relaxed);
    counters_.slabs_taken_over.add(1);
    return true;
  }
  return false;
}

}  // namespace loft
