#include "pages/heap.h"

#include <new>

#include "os/os.h"
#include "space/span.h"

namespace engine::pages {

void Queue::push_front(Slab* slab) {
  slab->previous = nullptr;
  slab->next = first_;
  (first_ != nullptr ? first_->previous : last_) = slab;
  first_ = slab;
}

void Queue::push_back(Slab* slab) {
  slab->next = nullptr;
  slab->previous = last_;
  (last_ != nullptr ? last_->next : first_) = slab;
  last_ = slab;
}

void Queue::remove(Slab* slab) {
  (slab->next != nullptr ? slab->next->previous : last_) = slab->previous;
  (slab->previous != nullptr ? slab->previous->next : first_) = slab->next;
}

// The owner looks at messages when a slab runs empty, and goes on to the next one if none came (1).
// Slabs without a free object leave the queue: each is looked at in vain once.
void* Heap::allocate_slowly(loft::SizeClass c) {
  Queue& queue = queues_[c];
  if (Slab* const slab = queue.first(); slab != nullptr && slab->open_batch()) return slab->take();
  drain();
  for (Slab* slab = queue.first(); slab != nullptr;) {
    tally.received.add(slab->collect());
    if (slab->free != nullptr || slab->extend()) {
      if (slab != queue.first()) {
        queue.remove(slab);
        queue.push_front(slab);
      }
      return slab->take();
    }
    Slab* const next_one = slab->next;
    if (unwatch(slab)) slab = next_one;  // else messages have just come
  }
  Slab* const slab = make_slab(c);
  return slab == nullptr ? nullptr : slab->take();
}

// False if there are messages. A sender's swap and this one are of one word, so one is first:
// either the sender's objects make this one fail, or the sender sees that it must notify.
bool Heap::unwatch(Slab* slab) {
  uintptr_t expected = kWatched;
  // Relaxed: the owner gives nothing to others here. A failure reads a list that collect acquires.
  if (!slab->messages.compare_exchange_strong(expected, kUnwatched, loft::memory_order_relaxed,
                                              loft::memory_order_relaxed)) {
    tally.swap_retries.add(1);
    return false;
  }
  tally.swaps.add(1);
  slab->watched = false;
  queues_[slab->size_class].remove(slab);
  return true;
}

// The slab has a free object. Whoever has won the right to notify meanwhile still does; the notice
// then finds the slab watched, which does no harm.
void Heap::watch(Slab* slab) {
  slab->watched = true;
  queues_[slab->size_class].push_back(slab);
  // Acquire, as in Slab::collect: this exchange claims the messages, too.
  const uintptr_t old = slab->messages.exchange(kWatched, loft::memory_order_acquire);
  tally.received.add(slab->receive(list_of(old)));
}

// Receives the notices. Each is an object, which is freed as one of the owner's own, or a batch.
void Heap::drain() {
  // Relaxed: only a hint, as in Slab::collect.
  if (LOFT_LIKELY(delayed.load(loft::memory_order_relaxed) == nullptr)) return;
  // Acquire pairs with the release in notify: the link, and the sender's last use of the object.
  Object* p = delayed.exchange(nullptr, loft::memory_order_acquire);
  const bool of_batches = policy.queue == QueueOf::kBatches;
  while (p != nullptr) {
    Object* const next_one = of_batches ? Batch::of(p->message, 0).next : Links::reveal(p->link, 0);
    Slab* const slab = slab_of(p);
    if constexpr (Links::kChecked) {
      const bool wrong =
          next_one != nullptr &&
          (!loft::pagemap.contains(next_one) || !loft::pagemap.of(next_one).is_slab() ||
           loft::pagemap.of(next_one).owner() != id || !slab_of(next_one)->holds(next_one));
      if (LOFT_UNLIKELY(wrong)) stop_at(p, slab->size);
    }
    tally.received.add(1);
    of_batches ? slab->join(p) : slab->put(p);
    settle(slab);
    p = next_one;
  }
}

// All objects are home. One slab of each class stays, so that a thread with few objects does not
// take and give one back all the time.
void Heap::retire(Slab* slab) {
  if (!queues_[slab->size_class].has_one()) destroy(slab);
}

void Heap::clear() {
  drain();
  for (Queue& queue : queues_) {
    for (Slab* slab = queue.first(); slab != nullptr;) {
      Slab* const next_one = slab->next;
      tally.received.add(slab->collect());
      if (slab->used == 0) destroy(slab);
      slab = next_one;
    }
  }
}

uint64_t Heap::next_key() {
  if constexpr (!Links::kChecked) return 0;
  if (keys_ == 0) keys_ = mix(loft::os::now_ns() ^ global_key) + id;
  return mix(keys_ += 0x9E3779B97F4A7C15u);
}

Slab* Heap::make_slab(loft::SizeClass c) {
  const size_t granules = granules_of(c);
  const loft::span::Range range = loft::span::acquire(granules, loft::kGranule);
  if (range.base == 0) return nullptr;
  void* const record = loft::metadata::allocate(sizeof(Slab));
  if (record == nullptr) {
    loft::span::release(range.base, granules, !range.zero);
    return nullptr;
  }
  auto* const slab = new (record) Slab;
  slab->heap = this;
  slab->base = range.base;
  slab->key = next_key();
  slab->size = static_cast<uint32_t>(loft::class_size(c));
  slab->capacity = static_cast<uint32_t>((granules << loft::kGranuleLog) / slab->size);
  slab->size_class = c;
  slab->watched = true;
  // The record before the entries, and these before the first object.
  loft::pagemap.fill(range.base, granules,
                     loft::Entry(id, loft::bin_offset(c), loft::metadata::index_of(slab)));
  loft::compiler_fence();
  queues_[c].push_front(slab);
  slab->extend();
  return slab;
}

void Heap::destroy(Slab* slab) {
  queues_[slab->size_class].remove(slab);
  const uintptr_t base = slab->base;
  const size_t granules = granules_of(slab->size_class);
  loft::pagemap.fill(base, granules, loft::Entry{});
  loft::compiler_fence();
  loft::span::release(base, granules, true);
  loft::metadata::release(slab, sizeof(Slab));
}

void Heap::readopt(Slab* slab) {
  // Relaxed: the child of a fork has one thread.
  const Object* const list = list_of(slab->messages.load(loft::memory_order_relaxed));
  slab->messages.store(reinterpret_cast<uintptr_t>(list) | kWatched, loft::memory_order_relaxed);
  slab->watched = true;
  queues_[slab->size_class].push_back(slab);
}

}  // namespace engine::pages
