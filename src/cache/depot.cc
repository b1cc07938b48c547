#include "cache/depot.h"

#include "cache/arrays.h"

namespace loft::depot {

bool stash(Thread* thread, SizeClass size_class) {
  BinState& state = thread->states[size_class];
  LOFT_CHECK(state.capacity == bins::kMaxCapacity &&
             thread->bins[size_class].top() == state.slots + state.capacity);
  void** empty = thread->spare_arrays;
  if (empty != nullptr) {
    thread->spare_arrays = static_cast<void**>(empty[0]);
    empty[0] = nullptr;
  } else {
    empty = bins::make_array(bins::kMaxCapacity);
    if (empty == nullptr) return false;
  }
  void** const full = state.slots;
  bins::exchange(thread, size_class, empty, 0);
  full[0] = static_cast<void*>(state.depot);
  compiler_fence();  // linked before it is found, for bins::inherit
  state.depot = full;
  ++state.stashed;
  thread->capacity_bytes += state.capacity * class_size(size_class);
  return true;
}

void take(Thread* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  LOFT_CHECK(thread->bins[size_class].top() == state.slots);
  void** const empty = state.slots;
  bins::exchange(thread, size_class, remove(thread, size_class), state.capacity);
  keep(thread, empty);
}

void** remove(Thread* thread, SizeClass size_class) {
  BinState& state = thread->states[size_class];
  void** const full = state.depot;
  if (full == nullptr) return nullptr;
  state.depot = static_cast<void**>(full[0]);
  compiler_fence();  // for bins::inherit: the rest of the depot stays linked
  full[0] = nullptr;
  --state.stashed;
  state.least_stashed = least(state.least_stashed, state.stashed);
  thread->capacity_bytes -= state.capacity * class_size(size_class);
  return full;
}

void keep(Thread* thread, void** slots) {
  slots[0] = static_cast<void*>(thread->spare_arrays);
  thread->spare_arrays = slots;
}

void release_spares(Thread* thread) {
  while (thread->spare_arrays != nullptr) {
    void** const slots = thread->spare_arrays;
    thread->spare_arrays = static_cast<void**>(slots[0]);
    bins::release_array_of(slots, bins::kMaxCapacity);
  }
}

}  // namespace loft::depot
