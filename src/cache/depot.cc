#include "cache/depot.h"

#include "space/metadata.h"

namespace loft::depot {

namespace {

constexpr size_t kArrayBytes = kMostSlots * sizeof(void*);

// The thread may die in a fork between any two of the stores below: in the child, an array is in
// one place or nowhere, and then given up, as is that of a bin which is not whole.
void swap_in(Bin& bin, BinState& state, void** slots, size_t objects) {
  const ptrdiff_t limit = bin.limit - state.slots;
  state.slots = slots;
  compiler_fence();
  bin.top = slots + objects;
  bin.limit = slots + limit;
  compiler_fence();
}

}  // namespace

bool stash(Thread* thread, SizeClass size_class) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  LOFT_CHECK(state.capacity == kMostSlots - 1 && bin.top == state.slots + state.capacity);
  void** empty = thread->spare_arrays;
  if (empty != nullptr) {
    thread->spare_arrays = static_cast<void**>(empty[0]);
    compiler_fence();
    empty[0] = nullptr;
  } else {
    empty = static_cast<void**>(metadata::allocate(kArrayBytes));
    if (empty == nullptr) return false;
  }
  void** const full = state.slots;
  swap_in(bin, state, empty, 0);
  full[0] = static_cast<void*>(state.depot);
  compiler_fence();
  state.depot = full;
  ++state.stashed;
  thread->capacity_bytes += state.capacity * class_size(size_class);
  return true;
}

void take(Thread* thread, SizeClass size_class) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  LOFT_CHECK(bin.top == state.slots);
  void** const empty = state.slots;
  swap_in(bin, state, remove(thread, size_class), state.capacity);
  keep(thread, empty);
}

void** remove(Thread* thread, SizeClass size_class) {
  BinState& state = thread->states[size_class];
  void** const full = state.depot;
  if (full == nullptr) return nullptr;
  state.depot = static_cast<void**>(full[0]);
  compiler_fence();
  full[0] = nullptr;
  --state.stashed;
  state.least_stashed = least(state.least_stashed, state.stashed);
  thread->capacity_bytes -= state.capacity * class_size(size_class);
  return full;
}

void keep(Thread* thread, void** slots) {
  slots[0] = static_cast<void*>(thread->spare_arrays);
  compiler_fence();
  thread->spare_arrays = slots;
}

void release_spares(Thread* thread) {
  while (thread->spare_arrays != nullptr) {
    void** const slots = thread->spare_arrays;
    thread->spare_arrays = static_cast<void**>(slots[0]);
    metadata::release(static_cast<void*>(slots), kArrayBytes);
  }
}

}  // namespace loft::depot
