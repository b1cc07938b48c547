#include "cache/arrays.h"

#include "base/options.h"
#include "os/fault.h"
#include "os/limits.h"
#include "space/metadata.h"

namespace loft::bins {

namespace {

// The limit on the contents of one class's array in one cache.
constexpr size_t kClassBytes = 512 * 1024;
constexpr unsigned kMinCapacity = 3;
constexpr size_t kFirstBytes = 2048;   // keeps the arrays of a small process within a few lines
constexpr size_t kAlways = 4096;       // up to here, a first array is made under any limit
constexpr size_t kWithoutSharing = 4;  // caches
constexpr size_t kLeastShare = 256 * 1024;  // of a cache, however many there are
constexpr size_t kTightShare = 16;          // divides the budget while memory is tight

// 2^k - 1 for some k: with the null slot, the array fills whole cache lines.
constexpr unsigned capacity_below(size_t objects) {
  const size_t n = clamp<size_t>(objects, kMinCapacity, kMaxCapacity);
  return (1u << highest_bit(n + 1)) - 1;
}
constexpr unsigned max_capacity(SizeClass c) { return capacity_below(kClassBytes / class_size(c)); }
struct FirstCapacities {
  uint8_t of[kSizeClasses];
  constexpr FirstCapacities() : of{} {
    for (SizeClass c = 0; c < kSizeClasses; ++c) {
      const unsigned capacity = least(capacity_below(kFirstBytes / class_size(c)), 31u);
      of[c] = static_cast<uint8_t>(capacity);
    }
  }
};
constexpr FirstCapacities kFirstCapacities;

size_t array_bytes(unsigned capacity) { return (capacity + 1) * sizeof(void*); }

// A bin without an array holds nothing. Its top is at the null slot that all such bins share.
unsigned count(const Bin& bin, const BinState& state) {
  return state.slots == nullptr ? 0 : static_cast<unsigned>(bin.top() - state.slots);
}

// Gives the bin an array that holds `objects` objects. `slots` changes first, then `capacity`, then
// the top. bins::inherit frees the array at `slots` only if the top lies in it: then the capacity
// is that array's, too.
void set_array(Bin& bin, BinState& state, void** slots, unsigned capacity, unsigned objects) {
  state.slots = slots;
  compiler_fence();
  state.capacity = static_cast<uint16_t>(capacity);
  state.repeat = 0;
  bin.set_top(slots + objects);
  set_limit(bin, state);
}

// Moves the bin's objects into a new array for `capacity` of them. False without memory.
bool set_capacity(ThreadCache* thread, SizeClass size_class, unsigned capacity) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  void** const slots = make_array(capacity);
  if (slots == nullptr) return false;
  unsigned objects = 0;
  if (state.slots != nullptr) {
    objects = count(bin, state);
    __builtin_memcpy(slots + 1, state.slots + 1, objects * sizeof(void*));
  }
  void** const old = state.slots;
  const unsigned old_capacity = state.capacity;
  set_array(bin, state, slots, capacity, objects);
  thread->capacity_bytes += (capacity - old_capacity) * class_size(size_class);
  if (old != nullptr) release_array_of(old, old_capacity);
  return true;
}

}  // namespace

// A thread that got its arrays when there were fewer keeps them.
size_t budget() {
  const size_t most_bytes = get(options.cache_bytes);
  const size_t equal = most_bytes / most<size_t>(limits::caches() / kWithoutSharing, 1);
  const size_t bytes = least(most_bytes, most(kLeastShare, equal));
  if (LOFT_LIKELY(!limits::bounds_caches())) return bytes;
  return least(limits::tight() ? bytes / kTightShare : bytes, limits::cache_share());
}

void set_limit(Bin& bin, const BinState& state) {
  if (LOFT_UNLIKELY(bin.is_asked())) return;
  if (LOFT_UNLIKELY(state.slots == nullptr)) return bin.set_limit(no_objects);
  bin.set_limit(state.slots + (state.watched_pushes < kWatchedPushes ? 0 : state.capacity));
}

bool grow(ThreadCache* thread, SizeClass size_class) {
  const unsigned capacity = thread->states[size_class].capacity;
  const unsigned wanted = capacity == 0 ? first_capacity(size_class) : 2 * capacity + 1;
  if (wanted > max_capacity(size_class)) return false;
  const size_t more = (wanted - capacity) * class_size(size_class);
  // A first array ignores the thread's budget: a thread over its budget still needs a slot to free
  // into. A long one (above kAlways) does not ignore the budget that all caches share.
  if (capacity != 0 && thread->capacity_bytes + more > budget()) return false;
  if ((capacity != 0 || more > kAlways) && !pool::has_room(thread, more)) return false;
  if (!set_capacity(thread, size_class, wanted)) return false;
  thread->counters.bins_grown.add(1);
  return true;
}

void release_array(ThreadCache* thread, SizeClass size_class) {
  const BinState state = thread->states[size_class];
  thread->capacity_bytes -= state.capacity * class_size(size_class);
  Bin& bin = thread->bins[size_class];
  bin.set_top(no_objects);
  if (!bin.is_asked()) bin.set_limit(no_objects);
  thread->states[size_class] = BinState{};
  if (state.slots != nullptr) release_array_of(state.slots, state.capacity);
}

unsigned first_capacity(SizeClass size_class) { return kFirstCapacities.of[size_class]; }

unsigned count(const ThreadCache* thread, SizeClass size_class) {
  return count(thread->bins[size_class], thread->states[size_class]);
}

void** make_array(unsigned capacity) {
  auto** const slots = static_cast<void**>(metadata::allocate_as_it_is(array_bytes(capacity)));
  if (LOFT_LIKELY(slots != nullptr)) slots[0] = nullptr;
  return slots;
}

void release_array_of(void** slots, unsigned capacity) {
  metadata::release(slots, array_bytes(capacity));
}

void exchange(ThreadCache* thread, SizeClass size_class, void** slots, unsigned objects) {
  BinState& state = thread->states[size_class];
  set_array(thread->bins[size_class], state, slots, state.capacity, objects);
}

}  // namespace loft::bins

namespace loft::depot {

bool stash(ThreadCache* thread, SizeClass size_class) {
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

void take(ThreadCache* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  LOFT_CHECK(thread->bins[size_class].top() == state.slots);
  void** const empty = state.slots;
  bins::exchange(thread, size_class, remove(thread, size_class), state.capacity);
  keep(thread, empty);
}

void** remove(ThreadCache* thread, SizeClass size_class) {
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

void keep(ThreadCache* thread, void** slots) {
  slots[0] = static_cast<void*>(thread->spare_arrays);
  thread->spare_arrays = slots;
}

void release_spares(ThreadCache* thread) {
  while (thread->spare_arrays != nullptr) {
    void** const slots = thread->spare_arrays;
    thread->spare_arrays = static_cast<void**>(slots[0]);
    bins::release_array_of(slots, bins::kMaxCapacity);
  }
}

}  // namespace loft::depot

namespace loft::pool {

namespace {

// The sum of all counted_bytes, modulo 2^64. Relaxed: it orders nothing.
constinit Atomic<size_t> total{0};

size_t held(const ThreadCache* thread) {
  return thread->capacity_bytes + thread->counters.medium_kept_bytes.get();
}

// Counts the thread's cache as `bytes`. Returns the total.
size_t count_as(ThreadCache* thread, size_t bytes) {
  const size_t more = bytes - thread->counted_bytes;
  thread->counted_bytes = bytes;
  return total.fetch_add(more, memory_order_relaxed) + more;
}

}  // namespace

bool claim(ThreadCache* thread, size_t more) {
  const size_t before = held(thread);
  // A cache that shrinks and grows in turn stays counted at its largest, until give_back.
  if (before + more <= thread->counted_bytes) return true;
  if (count_as(thread, before + more) <= limits::scarce_cached()) return true;
  count_as(thread, before);
  return false;
}

void give_back(ThreadCache* thread) {
  if (thread->counted_bytes > held(thread)) count_as(thread, held(thread));
}

void forget(ThreadCache* thread) {
  if (thread->counted_bytes != 0) count_as(thread, 0);
}

void forget_all() {
  for (ThreadCache* thread = newest_cache(); thread != nullptr; thread = thread->older) {
    thread->counted_bytes = 0;
  }
  total.store(0, memory_order_relaxed);
}

}  // namespace loft::pool
