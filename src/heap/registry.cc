#include "heap/registry.h"

#include <new>

#include "os/lock.h"
#include "os/os.h"
#include "space/metadata.h"

namespace loft::registry {

namespace {

constexpr unsigned kOthersLooks = 4;            // heaps that one refill looks at
constexpr size_t kOthersBytes = 16 * kGranule;  // and bytes it takes in for each, twice
// What somebody does not use for so long others may have. Less, and threads that run take each
// other's slabs; more, and those that wait for their turn keep theirs.
constexpr uint64_t kIdleNs = 1'000'000;
// Who waits for so long, but not for longer, has done its work and will work again, and much of the
// first slab of each class is in its thread's cache: in another's hands, it would go home object by
// object when that is emptied.
constexpr uint64_t kAsleepNs = 50'000'000;
constexpr uint64_t kAwayNs = 10'000'000'000;

constinit os::Lock lock;
constinit Atomic<Heap*> heaps[kMaxHeaps];
constinit Heap* parked = nullptr;
constinit Atomic<unsigned> heap_count{0};
constinit Counter adoption_count;
constinit Atomic<unsigned> next_look{0};

Heap* create() {
  const unsigned id = heap_count.load(memory_order_relaxed) + 1;
  if (id >= kMaxHeaps) return nullptr;
  void* block = metadata::allocate(sizeof(Heap));
  if (block == nullptr) return nullptr;
  Heap* heap = new (block) Heap(static_cast<HeapId>(id));
  // Release: pairs with the acquires in deliver, at and count; the heap is constructed.
  heaps[id].store(heap, memory_order_release);
  directory[id].store(&heap->inbox(), memory_order_release);
  heap_count.store(id, memory_order_release);
  return heap;
}

}  // namespace

Heap* adopt() {
  const os::Guard guard(lock);
  Heap* heap = parked;
  if (heap == nullptr) return create();
  parked = heap->next_parked;
  adoption_count.add(1);
  heap->next_parked = nullptr;
  heap->set_parked(false);
  return heap;
}

void park(Heap* heap) {
  const os::Guard guard(lock);
  heap->set_parked(true);
  heap->next_parked = parked;
  parked = heap;
}

Help help(Heap& heap, SizeClass size_class) {
  Help got{0, false};
  const unsigned existing = count();
  if (existing < 2) return got;
  const uint64_t now = os::now_ns();
  for (unsigned looks = 0; looks < kOthersLooks && !got.slab; ++looks) {
    // A shared cursor: callers spread over the heaps. Relaxed: any distribution will do.
    Heap* other = at(next_look.fetch_add(1, memory_order_relaxed) % existing + 1);
    const uint64_t idle = other->idle_ns(now);
    if (other == &heap) continue;
    // A thread that sleeps has objects there that it will write to: not into lines that others
    // write, too.
    const bool sleeps = idle >= kIdleNs && fills_cache_lines(size_class);
    const Heap::Surplus surplus = other->surplus(size_class);
    const bool pending = idle != 0 && other->inbox().maybe_pending();
    if (!sleeps && surplus == Heap::Surplus::kNone && !pending && !other->parked()) continue;
    if (!other->lock().try_lock()) {
      if (pending) heap.stall().note(other->id(), other->lock(), os::now_ns());
      continue;
    }
    if (pending) {
      other->drain(kOthersBytes);
      other->inbox().complete();
      other->drain(kOthersBytes);
      other->trim_spares(0);
      ++got.drained;
    }
    // Under the lock: a thread that has adopted the heap, and got objects there, is seen.
    if (sleeps || other->parked()) {
      const bool has_cache = !other->parked() && !other->rests();
      const bool returns = has_cache && idle >= kAsleepNs && idle < kAwayNs;
      got.slab = heap.take_over(*other, size_class, returns ? 1 : 0, false);
    } else if (surplus != Heap::Surplus::kNone) {
      const bool eighths = surplus == Heap::Surplus::kEighthFree;
      got.slab = heap.take_over(*other, size_class, Heap::kKept, eighths);
    }
    other->lock().unlock();
  }
  return got;
}

bool rest_parked() {
  bool all_rest = true;
  const unsigned existing = count();
  for (unsigned id = 1; id <= existing; ++id) {
    Heap* heap = at(id);
    if (!heap->parked() || (heap->rested() && !heap->inbox().maybe_pending())) continue;
    all_rest = false;
    if (!heap->lock().try_lock()) continue;
    if (heap->parked()) heap->rest(nullptr, Heap::Walk::kNowAndThen);
    heap->lock().unlock();
  }
  return all_rest;
}

unsigned count() { return heap_count.load(memory_order_acquire); }
unsigned adoptions() { return static_cast<unsigned>(adoption_count.get()); }
Heap* at(unsigned id) { return heaps[id].load(memory_order_acquire); }

void prepare_fork() {
  lock.lock();
  for (unsigned id = 1; id <= count(); ++id) at(id)->lock().lock();
}

void finish_fork(bool child) {
  for (unsigned id = 1; id <= count(); ++id) {
    Heap* heap = at(id);
    if (child) heap->repair_inbox();
    heap->lock().after_fork(child);
  }
  lock.after_fork(child);
}

}  // namespace loft::registry
