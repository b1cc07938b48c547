#include "pages/messages.h"

#include "pages/heap.h"

namespace engine::pages {

namespace {

// The first of the two messages to a slab that its heap does not watch (3.1).
void notify(Heap* heap, Object* p, Tally& tally) {
  // Relaxed: the old head is only written into the object and compared.
  Object* head = heap->delayed.load(loft::memory_order_relaxed);
  for (;;) {
    p->link = Links::hide(head, 0);
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

}  // namespace

// An object in hand keeps its slab alive: `used` still counts it. So nothing of the slab is touched
// after the last object has left.
void send(Slab* slab, Object* first, Object* last, Tally& tally) {
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
      notify(heap, first, tally);
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

}  // namespace engine::pages
