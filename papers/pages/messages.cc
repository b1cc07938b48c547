#include "pages/messages.h"

#include "pages/heap.h"

namespace engine::pages {

namespace {

// To the heap, because it does not watch the slab (3.1). `link`: lets the object say which one
// comes behind it.
template <class Link>
void notify(Heap* heap, Object* p, Link link, Tally& tally) {
  // Relaxed: the old head is only written into the object and compared.
  Object* head = heap->delayed.load(loft::memory_order_relaxed);
  for (;;) {
    link(head);
    // Release pairs with the acquire in Heap::drain: the link, and all that this thread did to the
    // object, come before what the owner does. A failure publishes nothing, so relaxed.
    if (heap->delayed.compare_exchange_weak(head, p, loft::memory_order_release,
                                            loft::memory_order_relaxed)) {
      break;
    }
    tally.swap_retries.add(1);
  }
  tally.swaps.add(1);
  tally.messages.add(1);
}

// Its receiver walks the list. A slab that its heap does not watch needs two messages.
void send_objects(Slab* slab, Object* first, Object* last, Tally& tally) {
  // Relaxed: a state that is out of date makes the swap fail, and a list is only written into the
  // last object. What is read of the slab is constant since before its first object.
  uintptr_t old = slab->messages.load(loft::memory_order_relaxed);
  for (;;) {
    if (LOFT_UNLIKELY((old & kStates) == kUnwatched)) {
      // Only the thread that wins here notifies. Relaxed: the swap publishes nothing, the notice
      // does. That the list is empty follows from the state, which is part of the same word.
      if (!slab->messages.compare_exchange_weak(old, kNotified, loft::memory_order_relaxed,
                                                loft::memory_order_relaxed)) {
        tally.swap_retries.add(1);
        continue;
      }
      tally.swaps.add(1);
      Heap* const heap = slab->heap;
      Object* const rest = first == last ? nullptr : slab->next_of(first);
      notify(heap, first, [&](Object* head) { first->link = Links::hide(head, 0); }, tally);
      if (rest == nullptr) return;
      first = rest;
      old = slab->messages.load(loft::memory_order_relaxed);  // the rest still is in hand
      continue;
    }
    slab->link(last, list_of(old));
    // Release pairs with the acquire in Slab::collect and Heap::watch: the links, and all that this
    // thread did to the objects, come before what the owner does. A failure publishes nothing.
    // The list is only ever taken whole, so a head that left and came back is as good as one that
    // stayed.
    if (slab->messages.compare_exchange_weak(
            old, reinterpret_cast<uintptr_t>(first) | (old & kStates), loft::memory_order_release,
            loft::memory_order_relaxed)) {
      break;
    }
    tally.swap_retries.add(1);
  }
  tally.swaps.add(1);
  tally.messages.add(1);
}

// One message and one swap, and the receiver walks no objects. The message stands in the slab's
// queue or, if the heap does not watch the slab, in the heap's: nobody has to win the right to
// notify, because each notice is whole. The heap may come to watch the slab, or cease to,
// meanwhile. It takes in what it finds in its own queue whether it watches the slab or not; and
// when it ceases, the word changes that the swap compares.
void send_batch(Slab* slab, Object* first, uint32_t count, Tally& tally) {
  // Relaxed, as in send_objects: the swap finds out what is out of date.
  uintptr_t old = slab->messages.load(loft::memory_order_relaxed);
  for (;;) {
    if (LOFT_UNLIKELY((old & kStates) != kWatched)) {
      const auto link = [&](Object* head) { first->message = Batch{head, count}.hidden(0); };
      return notify(slab->heap, first, link, tally);
    }
    first->message = Batch{list_of(old), count}.hidden(slab->key);
    // Release, as in send_objects.
    if (slab->messages.compare_exchange_weak(old, reinterpret_cast<uintptr_t>(first) | kWatched,
                                             loft::memory_order_release,
                                             loft::memory_order_relaxed)) {
      break;
    }
    tally.swap_retries.add(1);
  }
  tally.swaps.add(1);
  tally.messages.add(1);
}

}  // namespace

// An object in hand keeps its slab alive: `used` still counts it. So nothing of the slab is touched
// after the last object has left.
void send(Slab* slab, Object* first, Object* last, uint32_t count, Tally& tally) {
  if (policy.queue == QueueOf::kBatches) return send_batch(slab, first, count, tally);
  send_objects(slab, first, last, tally);
}

}  // namespace engine::pages
