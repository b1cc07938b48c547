#include "cache/bins.h"

#include "base/look.h"
#include "base/options.h"
#include "base/peek.h"
#include "base/probe.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/object.h"
#include "heap/heap.h"
#include "os/fault.h"
#include "os/limits.h"
#include "os/lock.h"
#include "slab/slab.h"

namespace loft::bins {

namespace {

// The limit on a class's stashed arrays, which all have the maximum length, in addition to the
// bin's own array. A program whose number of live objects varies by 1000 needs room for more than
// 1000, because a refill brings more objects than were wanted.
constexpr size_t kDepotBytes = 512 * 1024;
constexpr size_t kKeptBytes = 4096;  // the limit for a first array that stays with the block
// The size to which a stream of allocations may grow a bin: the larger of the two. Each further
// doubling saves few refills of small objects, and costs more where objects come back from another
// thread: with 64 KiB of 64-byte objects, xmalloc-test took 1.6 times as long.
constexpr size_t kStreamSlots = 128;
constexpr size_t kStreamBytes = 8 * 1024;
constexpr unsigned kStreak = 2;  // consecutive refills that make a stream

// Returns the heap's own objects to their slabs. Objects of other heaps go into batches: the thread
// kept them (should_keep), or their slab has changed owners. Under the heap's lock.
void return_objects(ThreadCache* thread, SizeClass size_class, void** objects, void** end) {
  for (;;) {
    objects = thread->heap->put_back(size_class, objects, end);
    if (LOFT_LIKELY(objects == end)) return;
    const Entry entry = pagemap.of(*objects);
    if (LOFT_UNLIKELY(!entry.is_slab())) slab::report_without_slab(*objects);
    batch_cache::add(thread, *objects++, entry);
  }
}

LOFT_COLD void put_back_one(ThreadCache* thread, SizeClass size_class, void* p) {
  const os::Guard guard(thread->heap->lock());
  return_objects(thread, size_class, &p, &p + 1);
}

constexpr unsigned kAllOfIt = ~0u;

// Returns the objects of up to `most` stashed arrays.
void flush_depot(ThreadCache* thread, SizeClass size_class, unsigned most) {
  thread->counters.flushes.add(1);
  const os::Guard guard(thread->heap->lock());
  for (; most != 0; --most) {
    void** const slots = depot::remove(thread, size_class);
    if (slots == nullptr) return;
    return_objects(thread, size_class, slots + 1, slots + kMostSlots);
    depot::keep(thread, slots);
  }
}

// Returns the `objects` oldest objects of a bin.
void flush(ThreadCache* thread, SizeClass size_class, unsigned objects) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  thread->counters.flushes.add(1);
  LOFT_PROBE2(loft, flush, uint64_t{size_class}, uint64_t{objects});
  // Held until the top is set: a fork waits for it, and finds each object in one place.
  const os::Guard guard(thread->heap->lock());
  return_objects(thread, size_class, state.slots + 1, state.slots + 1 + objects);
  const unsigned rest = bins::count(thread, size_class) - objects;
  __builtin_memmove(state.slots + 1, state.slots + 1 + objects, rest * sizeof(void*));
  bin.set_top(state.slots + rest);
}

// Returns all objects of the bin and frees its array. The bin starts over.
void drop_bin(ThreadCache* thread, SizeClass size_class) {
  flush_class(thread, size_class);
  release_array(thread, size_class);
  pool::tell(thread);
}

// Resets a bin that has grown, if the thread is over its budget. For use while memory is tight, or
// where more threads share a budget than did.
// Only one bin at a time, on its own slow path, so that no bin is emptied only to be refilled.
void shrink(ThreadCache* thread, SizeClass size_class) {
  if (thread->capacity_bytes <= budget()) return;
  const BinState& state = thread->states[size_class];
  if (state.capacity <= first_capacity(size_class)) return;
  drop_bin(thread, size_class);
  depot::release_spares(thread);
}

// Swaps a full array of the maximum length for an empty one, if the limit on stashed arrays allows
// it. That limit doubles where refills and flushes alternate.
bool stash(ThreadCache* thread, SizeClass size_class, bool alternating) {
  BinState& state = thread->states[size_class];
  const size_t bytes = kMaxCapacity * class_size(size_class);
  if (alternating) {
    const size_t most = least<size_t>(size_t{2} * state.most_stashed + 1, kDepotBytes / bytes);
    state.most_stashed = static_cast<uint16_t>(most);
  }
  // The rest of the budget is reserved for new bins.
  return state.stashed < state.most_stashed && thread->capacity_bytes + bytes <= budget() / 4 * 3 &&
         pool::has_room(thread, bytes) && depot::stash(thread, size_class);
}

// Makes space for one more object in a full bin. Grows it if it was refilled since it was last
// full; otherwise stashes its array. False if neither is possible.
bool grow_or_stash(ThreadCache* thread, SizeClass size_class) {
  BinState& state = thread->states[size_class];
  const bool alternating = state.last == SlowEvent::kRefill;
  if (LOFT_UNLIKELY(limits::bounds_caches())) shrink(thread, size_class);
  state.last = SlowEvent::kFlush;
  state.repeat = 0;
  if ((state.capacity == 0 || alternating) && grow(thread, size_class)) return true;
  return state.capacity == kMaxCapacity && stash(thread, size_class, alternating);
}

// Fills slots[0], slots[-1], ... from the heap's slabs. If these supply less than half of `wanted`,
// a new slab supplies the rest: refills of three or four just returned objects cost more than they
// save. Under the heap's lock.
unsigned fill(Heap* heap, ObjectRequest request, void** slots, unsigned wanted) {
  const SizeClass size_class = request.size_class;
  unsigned taken = heap->refill(size_class, slots, wanted);
  if (taken != wanted && taken < (wanted + 1) / 2) {
    taken += heap->refill_from_new(size_class, slots - taken, wanted - taken);
  }
  heap->note_request(size_class, request.asked, taken);
  return taken;
}

// Fills the bin's array, which is empty, and pops one object. nullptr without memory. In line: a
// call of its own costs each refill two instructions.
LOFT_ALWAYS_INLINE void* fill_empty(ThreadCache* thread, ObjectRequest request, unsigned wanted) {
  Bin& bin = thread->bins[request.size_class];
  void** const slots = bin.top();
  LOFT_CHECK(slots == thread->states[request.size_class].slots);
  unsigned taken = 0;
  {
    const os::Guard guard(thread->heap->lock());
    taken = fill(thread->heap, request, slots + wanted, wanted);
  }
  if (LOFT_UNLIKELY(taken != wanted)) {
    if (taken == 0) return nullptr;
    // They lie at the upper end.
    __builtin_memmove(slots + 1, slots + 1 + wanted - taken, taken * sizeof(void*));
  }
  LOFT_PROBE2(loft, refill, uint64_t{request.size_class}, uint64_t{taken});
  bin.set_top(slots + taken - 1);
  return slots[taken];
}

// Grows the bin if growth is due. Returns the number of objects to fetch if it has no depot; 0 if
// it has no array.
unsigned plan_refill(ThreadCache* thread, SizeClass size_class) {
  if (LOFT_UNLIKELY(limits::bounds_caches())) shrink(thread, size_class);
  BinState& state = thread->states[size_class];
  state.streak = state.last == SlowEvent::kFlush
                     ? 0
                     : static_cast<uint8_t>(state.streak + (state.streak < 255));
  const size_t most_wanted = most(kStreamSlots, kStreamBytes / class_size(size_class));
  const bool stream = state.streak >= kStreak && state.capacity + 1u < most_wanted;
  if (state.capacity == 0 || state.last == SlowEvent::kFlush || stream) grow(thread, size_class);
  state.last = SlowEvent::kRefill;
  // A stream takes a whole array. Otherwise a refill takes half, so that the next frees find space.
  if (stream) return state.capacity;
  const auto half = static_cast<uint16_t>(least<size_t>((state.capacity + 1u) / 2, most_wanted));
  // An array that no stream may grow is planned for once, until the bin is flushed.
  if (state.capacity + 1u >= most_wanted && state.depot == nullptr) state.repeat = half;
  return half;
}

LOFT_NOINLINE void* plan_and_refill(ThreadCache* thread, ObjectRequest request) {
  const unsigned wanted = plan_refill(thread, request.size_class);
  if (thread->states[request.size_class].depot != nullptr) {
    depot::take(thread, request.size_class);
    return thread->bins[request.size_class].pop();
  }
  return wanted == 0 ? take_one(thread->heap, request) : fill_empty(thread, request, wanted);
}

}  // namespace

void* take_one(Heap* heap, ObjectRequest request) {
  void* object = nullptr;
  const os::Guard guard(heap->lock());
  fill(heap, request, &object, 1);
  return object;
}

void* take_zero(Heap* heap, ObjectRequest request) {
  const os::Guard guard(heap->lock());
  void* const object = heap->take_zero(request.size_class);
  if (object != nullptr) heap->note_request(request.size_class, request.asked, 1);
  return object;
}

bool put_one(Heap* heap, SizeClass size_class, void* p) {
  if (!heap->lock().try_lock()) return false;
  const bool put = heap->put_back(size_class, &p, &p + 1) != &p;
  if (put) heap->leave_net(class_size(size_class));
  heap->lock().unlock();
  return put;
}

void* refill(ThreadCache* thread, ObjectRequest request) {
  const unsigned wanted = thread->states[request.size_class].repeat;
  if (wanted == 0 || LOFT_UNLIKELY(limits::tight())) return plan_and_refill(thread, request);
  return fill_empty(thread, request, wanted);
}

void ask(ThreadCache* thread) {
  for (Bin& bin : thread->bins) {
    if (!bin.is_asked()) bin.ask();
  }
}

bool push_slow(ThreadCache* thread, SizeClass size_class, void* p) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  if (LOFT_UNLIKELY(bin.is_asked())) {
    bin.set_limit(no_objects);  // no longer asked: set_limit leaves bins alone that are
    set_limit(bin, state);
    look_soon();
  }
  if (LOFT_UNLIKELY(*bin.top() == p)) report_bad_free(p);
  if (state.watched_pushes < kWatchedPushes) {
    check_freed(thread->heap, state.slots, count(thread, size_class), p);
    thread->counters.checked_frees.add(1);
    ++state.watched_pushes;
    set_limit(bin, state);
  }
  if (!has_space(thread, size_class) && !grow_or_stash(thread, size_class)) {
    if (LOFT_UNLIKELY(state.capacity == 0)) return put_back_one(thread, size_class, p), true;
    flush(thread, size_class, (state.capacity + 1u) / 2);
  }
  bin.push(p);
  return true;
}

void flush_class(ThreadCache* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  if (state.slots == nullptr) return;
  if (state.depot != nullptr) flush_depot(thread, size_class, kAllOfIt);
  if (const unsigned objects = count(thread, size_class); objects != 0) {
    flush(thread, size_class, objects);
  }
}

void flush_all(ThreadCache* thread) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) flush_class(thread, c);
  depot::release_spares(thread);
}

void review(ThreadCache* thread, SizeClass size_class, bool in_use) {
  BinState& state = thread->states[size_class];
  if (state.slots == nullptr) return;
  void** const top = thread->bins[size_class].top();
  const bool moved = in_use || state.seen_at != top;
  const unsigned unneeded = moved ? (state.least_stashed + 1u) / 2 : state.stashed;
  if (unneeded != 0) flush_depot(thread, size_class, unneeded);
  pool::tell(thread);
  state.least_stashed = state.stashed;
  state.seen_at = top;
  if (moved) return;
  drop_bin(thread, size_class);
  thread->counters.bins_released.add(1);
}

unsigned held(const ThreadCache* thread, SizeClass size_class, void** top) {
  const BinState& state = thread->states[size_class];
  void** const slots = peek(state.slots);
  const unsigned stashed = peek(state.stashed) * kMaxCapacity;
  // If the bin is changing at the moment, `slots` and `top` may belong to different arrays.
  if (slots == nullptr || top < slots || top >= slots + kMostSlots) return stashed;
  return static_cast<unsigned>(top - slots) + stashed;
}

void inherit(ThreadCache* dead) {
  const auto return_all = [&](SizeClass c, void** objects, void** end) {
    if (objects == end) return;
    const os::Guard guard(dead->heap->lock());
    return_objects(dead, c, objects, end);
  };
  const auto return_bin = [&](SizeClass c, const Bin& bin) {
    void** null_slot = bin.top();
    while (*null_slot != nullptr) --null_slot;
    return_all(c, null_slot + 1, bin.top() + 1);
    return null_slot;
  };
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    BinState& state = dead->states[c];
    return_bin(c, dead->metered[c]);
    dead->metered[c] = kEmptyBin;
    void** const null_slot = return_bin(c, dead->bins[c]);
    // set_array writes `slots`, then `capacity`, then the top: all are one array's if the top is.
    if (null_slot == state.slots) release_array_of(state.slots, state.capacity);
    while (state.depot != nullptr) {
      void** const full = state.depot;
      return_all(c, full + 1, full + kMostSlots);
      state.depot = static_cast<void**>(full[0]);
      release_array_of(full, kMaxCapacity);
    }
    const uint8_t watched_pushes = state.watched_pushes;
    state = BinState{};
    state.watched_pushes = watched_pushes;
    dead->bins[c] = kEmptyBin;
  }
  depot::release_spares(dead);
  dead->capacity_bytes = 0;
}

void reset(ThreadCache* thread, bool keep_first_arrays) {
  const bool keep = keep_first_arrays && !limits::tight();
  size_t kept = 0;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    BinState& state = thread->states[c];
    if (state.slots == nullptr && state.last == SlowEvent::kNone) continue;  // never used
    BinState fresh{};
    // The block's next thread does not repeat the watched pushes: they took a third of all
    // instructions of a thread with fifty objects.
    fresh.watched_pushes = state.watched_pushes;
    const size_t bytes = state.capacity * class_size(c);
    if (keep && state.capacity <= first_capacity(c) && bytes <= kKeptBytes) {
      LOFT_CHECK(count(thread, c) == 0);
      fresh.slots = state.slots;
      fresh.capacity = state.capacity;
      kept += bytes;
    } else {
      release_array(thread, c);
    }
    state = fresh;
  }
  depot::release_spares(thread);
  thread->capacity_bytes = kept;
  pool::tell(thread);
}

}  // namespace loft::bins

namespace loft {

void Trade::end_window(const HeapCounters& own) {
  size_t received = 0;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    if (is_tradable(c)) received += own.classes[c].received.get();
  }
  seen_ = 0;
  if (keeping_ != 0) {
    --keeping_;
  } else if (begun_ && received - received_ >= kEnough) {
    keeping_ = kKeeping;
  }
  received_ = received;
  begun_ = true;
}

Keep should_keep(ThreadCache* thread, SizeClass c, Entry entry) {
  Heap& heap = *thread->heap;
  if (is_tradable(c) && thread->trade.keeps(heap.counters()) &&
      thread->missed_slab != entry.index() && bins::has_space(thread, c)) {
    return Keep::kTrade;
  }
  return heap.stall().is_at(entry.owner()) ? Keep::kStall : Keep::kNo;
}

}  // namespace loft
