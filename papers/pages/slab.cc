#include "pages/slab.h"

#include "base/bits.h"
#include "os/fault.h"

namespace engine::pages {

constinit uint64_t global_key = 0;

void stop_at(const void* object, size_t bytes) {
  loft::os::fault(loft::Text() << "the link in a free object of " << bytes << " bytes at " << object
                               << " was overwritten");
}

bool Slab::extend() {
  constexpr uint32_t kStep = 4096;  // a page's worth: the rest stays untouched until it is needed
  const uint32_t count = loft::least(capacity - made, loft::most(kStep / size, uint32_t{1}));
  if (count == 0) return false;
  const auto at = [&](uint32_t i) { return reinterpret_cast<Object*>(base + uintptr_t{i} * size); };
  Object* const first = at(made);
  for (uint32_t i = made; i < made + count; ++i)
    link(at(i), i + 1 < made + count ? at(i + 1) : nullptr);
  made += count;
  loft::compiler_fence();
  free = first;
  return true;
}

Batch Slab::batch_at(const Object* first) const {
  const Batch batch = Batch::of(first->message, key);
  if constexpr (Links::kChecked) {
    if (LOFT_UNLIKELY(batch.next != nullptr && !holds(batch.next))) stop_at(first, size);
  }
  return batch;
}

void Slab::join(Object* first) {
  const uint32_t count = Batch::of(first->message, 0).count;
  if constexpr (Links::kChecked) {
    if (LOFT_UNLIKELY(count - 1 >= used)) stop_at(first, size);
  }
  if (free == nullptr) {
    free = first;
  } else {
    first->message = Batch{batches, count}.hidden(key);
    loft::compiler_fence();
    batches = first;
  }
  loft::compiler_fence();
  used -= count;
}

uint32_t Slab::receive_batches(Object* first) {
  uint32_t received = 0;
  uint32_t objects = 0;
  for (Object* at = first; at != nullptr; ++received) {
    const Batch batch = batch_at(at);
    objects += batch.count;
    if constexpr (Links::kChecked) {
      // Not more than are out: then the list does not lead back into itself either.
      if (LOFT_UNLIKELY(batch.count == 0 || objects > used)) stop_at(at, size);
    }
    if (batch.next == nullptr && batches != nullptr) {
      at->message = Batch{batches, batch.count}.hidden(key);
    }
    at = batch.next;
  }
  if (received == 0) return 0;
  loft::compiler_fence();
  batches = first;
  loft::compiler_fence();
  used -= objects;
  return received;
}

uint32_t Slab::receive_objects(Object* first) {
  if (first == nullptr) return 0;
  uint32_t count = 1;
  Object* last = first;
  while (Object* const next_one = next_of(last)) {
    last = next_one;
    ++count;
    if constexpr (Links::kChecked) {
      if (LOFT_UNLIKELY(count > made)) stop_at(last, size);  // a ring
    }
  }
  link(last, local_free);
  loft::compiler_fence();
  local_free = first;
  loft::compiler_fence();
  used -= count;
  return count;
}

uint32_t Slab::collect() {
  uint32_t received = 0;
  // Relaxed: only a hint. Messages that are missed now are seen next time.
  if (list_of(messages.load(loft::memory_order_relaxed)) != nullptr) {
    // Acquire pairs with the release of each sender in send(): the links that it wrote, and its
    // last uses of the objects, come before what the owner does to them. Each sender's swap
    // continues the release sequences of those before it, so one acquire is enough for all.
    received = receive(list_of(messages.exchange(kWatched, loft::memory_order_acquire)));
  }
  if (free == nullptr && !open_batch()) {
    Object* const list = local_free;
    local_free = nullptr;
    loft::compiler_fence();
    free = list;
  }
  return received;
}

}  // namespace engine::pages
