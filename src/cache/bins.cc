#include "cache/bins.h"

#include "base/options.h"
#include "base/peek.h"
#include "cache/batch_cache.h"
#include "cache/core.h"
#include "cache/depot.h"
#include "cache/large_cache.h"
#include "cache/magazines.h"
#include "cache/object.h"
#include "os/fault.h"
#include "slab/slab.h"
#include "space/limits.h"
#include "space/metadata.h"

namespace loft::bins {

namespace {

// What the array of one class may hold in one cache.
constexpr size_t kClassBytes = 512 * 1024;
constexpr unsigned kMaxCapacity = kMostSlots - 1;
// And what full arrays may besides, where they have as many slots as any: a program whose stock of
// an object swings by 1000 needs room for more, because a refill brings more than was wanted.
constexpr size_t kDepotBytes = 512 * 1024;
constexpr unsigned kMinCapacity = 3;
constexpr size_t kFirstBytes = 2048;  // a small process keeps its arrays within a few lines
constexpr size_t kKeptBytes = 4096;   // what a first array may hold that the next thread gets
// What a stream of allocations may grow a bin to, whichever is more. Each further doubling saves a
// little of the refills of small objects, and costs more where objects come back from another
// thread: with 64 KiB of 64-byte objects, xmalloc-test took 1.6 times as long.
constexpr size_t kStreamSlots = 128;
constexpr size_t kStreamBytes = 8 * 1024;
constexpr unsigned kStreak = 2;         // refills in a row that make a stream
constexpr uint8_t kWatchedPushes = 32;  // a bin's first pushes are checked one by one
constexpr uint8_t kReviewEvery = 64;  // refills; a round of all bins takes kSizeClasses times that
constexpr uint8_t kTightReviewEvery = 8;  // where memory is tight (space/limits.h)
constexpr size_t kTightShare = 16;        // where it is, this part of the budget is all there is

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
constexpr unsigned least_capacity(SizeClass c) { return kFirstCapacities.of[c]; }

// What all bins of a thread may hold.
size_t budget() {
  const size_t bytes = get(options.cache_bytes);
  return LOFT_UNLIKELY(limits::tight()) ? bytes / kTightShare : bytes;
}

size_t array_bytes(unsigned capacity) { return (capacity + 1) * sizeof(void*); }

// A bin without an array has its top at the null slot that all such bins share, and holds nothing.
unsigned count(const Bin& bin, const BinState& state) {
  return state.slots == nullptr ? 0 : static_cast<unsigned>(bin.top - state.slots);
}

// A bin that is under watch has no limit that a push can stay below: each goes through push_slow.
void set_limit(Bin& bin, const BinState& state) {
  bin.limit = state.slots + (state.watched_pushes < kWatchedPushes ? 0 : state.capacity);
}

// False only for the bin of a thread that died in a fork while it changed the bin's array.
bool whole(const Bin& bin, const BinState& state) {
  return (bin.limit == state.slots || bin.limit == state.slots + state.capacity) &&
         bin.top >= state.slots && bin.top <= state.slots + state.capacity;
}

// Gives the bin an array of `capacity` slots; its objects move along. False without memory.
bool set_capacity(Thread* thread, SizeClass size_class, unsigned capacity) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  auto** slots = static_cast<void**>(metadata::allocate(array_bytes(capacity)));
  if (slots == nullptr) return false;
  unsigned objects = 0;
  if (state.slots != nullptr) {
    objects = count(bin, state);
    for (unsigned i = 1; i <= objects; ++i) slots[i] = state.slots[i];
  }
  void** const old = state.slots;
  const unsigned old_capacity = state.capacity;
  // In a fork between any two of these, the bin is not whole, and its arrays are given up.
  state.slots = slots;
  compiler_fence();
  state.capacity = static_cast<uint16_t>(capacity);
  bin.top = slots + objects;
  set_limit(bin, state);
  thread->capacity_bytes += (capacity - old_capacity) * class_size(size_class);
  if (old != nullptr) metadata::release(old, array_bytes(old_capacity));
  return true;
}

// False when the bin is as large as it may be.
bool grow(Thread* thread, SizeClass size_class) {
  const unsigned capacity = thread->states[size_class].capacity;
  const unsigned wanted = capacity == 0 ? least_capacity(size_class) : 2 * capacity + 1;
  if (wanted > max_capacity(size_class)) return false;
  const size_t more = (wanted - capacity) * class_size(size_class);
  // A first array is always allowed: a thread over its budget still needs one slot to free into.
  if (capacity != 0 && thread->capacity_bytes + more > budget()) return false;
  if (!set_capacity(thread, size_class, wanted)) return false;
  thread->counters.bins_grown.add(1);
  return true;
}

// Gives objects back: its own heap's to their slabs, others' (which came by turnaround, or whose
// slab has changed hands) by give_foreign(object, entry). Under the heap's lock.
template <class Give>
void give_back(Heap* heap, SizeClass size_class, void** objects, void** end, Give&& give_foreign) {
  for (;;) {
    objects = heap->put_back(size_class, objects, end);
    if (LOFT_LIKELY(objects == end)) return;
    const Entry entry = pagemap.of(*objects);
    if (LOFT_UNLIKELY(!entry.is_slab())) slab::report_without_slab(*objects);
    give_foreign(*objects++, entry);
  }
}

// Gives the `objects` oldest objects of a bin back.
void flush(Thread* thread, SizeClass size_class, unsigned objects) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  thread->counters.flushes.add(1);
  // A fork waits for the lock: in its child, objects are either in the bin or in their slabs.
  const os::Guard guard(thread->heap->lock());
  give_back(thread->heap, size_class, state.slots + 1, state.slots + 1 + objects,
            [&](void* p, Entry entry) { batch_cache::add(thread, p, entry); });
  const unsigned rest = count(bin, state) - objects;
  __builtin_memmove(state.slots + 1, state.slots + 1 + objects, rest * sizeof(void*));
  bin.top = state.slots + rest;
}

constexpr unsigned kAllOfIt = ~0u;

// Gives the objects of up to `most` stashed arrays back. Under the heap's lock.
template <class GiveForeign>
void empty_depot(Thread* thread, SizeClass size_class, unsigned most, GiveForeign&& give_foreign) {
  for (; most != 0; --most) {
    void** const slots = depot::remove(thread, size_class);
    if (slots == nullptr) return;
    give_back(thread->heap, size_class, slots + 1, slots + kMostSlots, give_foreign);
    depot::keep(thread, slots);
  }
}

void flush_depot(Thread* thread, SizeClass size_class, unsigned most) {
  thread->counters.flushes.add(1);
  const os::Guard guard(thread->heap->lock());
  empty_depot(thread, size_class, most,
              [&](void* p, Entry entry) { batch_cache::add(thread, p, entry); });
}

void release_array(Thread* thread, SizeClass size_class) {
  const BinState state = thread->states[size_class];
  const bool in_order = state.slots != nullptr && whole(thread->bins[size_class], state);
  thread->capacity_bytes -= state.capacity * class_size(size_class);
  // In a fork in between, the bin is not whole; one without an array would be passed over.
  thread->bins[size_class] = kEmptyBin;
  compiler_fence();
  thread->states[size_class] = BinState{};
  // Forgotten before it is given back, in program order: the heir of a thread that died in a fork
  // in between must not give it back a second time.
  compiler_fence();
  if (in_order) metadata::release(state.slots, array_bytes(state.capacity));
}

// The bin starts over.
void let_go(Thread* thread, SizeClass size_class) {
  if (thread->states[size_class].depot != nullptr) flush_depot(thread, size_class, kAllOfIt);
  if (const unsigned objects = bins::count(thread, size_class); objects != 0) {
    flush(thread, size_class, objects);
  }
  magazines::empty_class(thread, size_class);
  release_array(thread, size_class);
}

// Where memory is tight: a bin that has grown, of a thread that is over its budget, starts over.
// One at a time, on its own slow paths, so that nothing is emptied only to be filled again at once.
void shrink(Thread* thread, SizeClass size_class) {
  if (thread->capacity_bytes <= budget()) return;
  const BinState& state = thread->states[size_class];
  if (state.capacity <= least_capacity(size_class)) return;
  let_go(thread, size_class);
  depot::release_spares(thread);
}

// Swaps a full array of the largest size for an empty one, if one more may be stashed.
bool stash(Thread* thread, SizeClass size_class, bool alternating) {
  BinState& state = thread->states[size_class];
  const size_t bytes = kMaxCapacity * class_size(size_class);
  if (alternating) {
    const size_t most = least<size_t>(size_t{2} * state.most_stashed + 1, kDepotBytes / bytes);
    state.most_stashed = static_cast<uint16_t>(most);
  }
  // A part of the budget is left for bins that begin.
  return state.stashed < state.most_stashed && thread->capacity_bytes + bytes <= budget() / 4 * 3 &&
         depot::stash(thread, size_class);
}

// Room for one more object in a full bin: by growing it if it was refilled since it was last full,
// then by stashing its array, otherwise by giving the older half back. False if there is no memory
// for a first array.
bool make_room(Thread* thread, SizeClass size_class) {
  BinState& state = thread->states[size_class];
  const bool alternating = state.last == SlowEvent::kRefill;
  if (LOFT_UNLIKELY(limits::tight())) shrink(thread, size_class);
  state.last = SlowEvent::kFlush;
  if ((state.capacity == 0 || alternating) && grow(thread, size_class)) return true;
  if (state.capacity == 0) return false;
  if (state.capacity == kMaxCapacity && stash(thread, size_class, alternating)) return true;
  const unsigned older = (state.capacity + 1u) / 2;
  if (magazines::in_use() && magazines::may_serve(thread, size_class, &Trials::flushes) &&
      magazines::decide(thread, size_class, &Trials::flushes, older) &&
      magazines::hand_over(thread, size_class, older)) {
    return true;
  }
  flush(thread, size_class, older);
  return true;
}

// One bin at a time: if nothing has moved in it since its last review, its objects go back, and
// half of what it needed less of its depot. A busy bin that happens to stand where it stood loses a
// refill in some thousands. The bin that is just being refilled stands where it always stands then.
void review_one(Thread* thread, SizeClass refilled) {
  thread->slow_events = 0;
  const SizeClass c = thread->review_next;
  thread->review_next = static_cast<uint8_t>((c + 1) % kSizeClasses);
  large_cache::review(thread);
  if (c == 0) depot::release_spares(thread);
  if (!core::own(thread, c)) return;
  magazines::review(thread, c);
  BinState& state = thread->states[c];
  if (state.slots == nullptr) return;
  void** const top = thread->bins[c].top;
  const bool moved = c == refilled || state.seen_at != top;
  const unsigned unneeded = moved ? (state.least_stashed + 1u) / 2 : state.stashed;
  if (unneeded != 0) flush_depot(thread, c, unneeded);
  state.least_stashed = state.stashed;
  if (moved) {
    state.seen_at = top;
    return;
  }
  let_go(thread, c);
  thread->counters.bins_released.add(1);
}

// Objects for slots[0], slots[-1], ...: from the heap's slabs, and from a new slab when these have
// less than half of what is wanted, because refills of three or four objects, just as they come
// home, cost more than they save. Under the heap's lock.
unsigned fill(Heap* heap, Request request, void** slots, unsigned wanted) {
  const SizeClass size_class = request.size_class;
  unsigned taken = heap->refill(size_class, slots, wanted);
  if (taken < (wanted + 1) / 2) {
    taken += heap->refill_from_new(size_class, slots - taken, wanted - taken);
  }
  heap->note_request(size_class, request.asked, taken);
  return taken;
}

// The same for a thread. The thread's own open batches come last, when there is no memory:
// an object of another heap, used here, pulls its cache lines over from the core that wrote them,
// and taking those first made the symmetric exchange 1.8 times as long.
unsigned fill(Thread* thread, Request request, void** slots, unsigned wanted) {
  const SizeClass size_class = request.size_class;
  const os::Guard guard(thread->heap->lock());
  unsigned taken = fill(thread->heap, request, slots, wanted);
  if (taken == 0 && fills_cache_lines(size_class)) {
    taken = batch_cache::turn_around(thread, size_class, slots, wanted);
  }
  return taken;
}

// Fewer than wanted: they lie at the upper end.
void close_gap(void** slots, unsigned taken, unsigned wanted) {
  if (taken >= wanted) return;
  __builtin_memmove(slots + 1, slots + 1 + wanted - taken, taken * sizeof(void*));
}

}  // namespace

unsigned first_capacity(SizeClass size_class) { return least_capacity(size_class); }

unsigned count(const Thread* thread, SizeClass size_class) {
  return count(thread->bins[size_class], thread->states[size_class]);
}

bool charge(Thread* thread, SizeClass size_class, unsigned from, unsigned to) {
  const size_t more = (to - from) * class_size(size_class);
  if (thread->capacity_bytes + more > budget()) return false;
  thread->capacity_bytes += more;
  return true;
}

void** make_array(unsigned capacity) {
  return static_cast<void**>(metadata::allocate(array_bytes(capacity)));
}

void release_array_of(void** slots, unsigned capacity) {
  metadata::release(slots, array_bytes(capacity));
}

Array exchange(Thread* thread, SizeClass size_class, Array array, unsigned objects) {
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  const Array old = {state.slots, state.capacity};
  // As in set_capacity: in a fork in between, the bin is not whole.
  state.slots = array.slots;
  compiler_fence();
  state.capacity = array.capacity;
  bin.top = array.slots + objects;
  set_limit(bin, state);
  return old;
}

unsigned fill_array(Heap* heap, Request request, void** slots, unsigned wanted) {
  const unsigned taken = fill(heap, request, slots + wanted, wanted);
  close_gap(slots, taken, wanted);
  return taken;
}

void put_back(Heap* heap, SizeClass size_class, void** objects, void** end,
              GiveForeign give_foreign) {
  give_back(heap, size_class, objects, end, give_foreign);
}

void* take_one(Heap* heap, Request request) {
  void* object = nullptr;
  const os::Guard guard(heap->lock());
  fill(heap, request, &object, 1);
  return object;
}

void* refill(Thread* thread, Request request) {
  const SizeClass size_class = request.size_class;
  const bool tight = limits::tight();
  if (LOFT_UNLIKELY(++thread->slow_events >= (tight ? kTightReviewEvery : kReviewEvery))) {
    review_one(thread, size_class);
  }
  if (LOFT_UNLIKELY(tight)) shrink(thread, size_class);
  BinState& state = thread->states[size_class];
  state.streak = state.last == SlowEvent::kFlush
                     ? 0
                     : static_cast<uint8_t>(state.streak + (state.streak < 255));
  const size_t most_wanted = most(kStreamSlots, kStreamBytes / class_size(size_class));
  const bool room_may = magazines::in_use() && state.depot == nullptr &&
                        magazines::may_serve(thread, size_class, &Trials::refills);
  // Also a stream that is faster than the room, which needs longer ones to keep ahead of it.
  const bool late = room_may && magazines::late(thread, size_class);
  const bool stream = state.streak >= kStreak && (late || state.capacity + 1u < most_wanted);
  if (state.capacity == 0 || state.last == SlowEvent::kFlush || stream) grow(thread, size_class);
  state.last = SlowEvent::kRefill;

  Bin& bin = thread->bins[size_class];
  if (state.depot != nullptr) {
    depot::take(thread, size_class);
    return *bin.top--;
  }
  if (LOFT_UNLIKELY(state.capacity == 0)) return take_one(thread->heap, request);
  LOFT_CHECK(bin.top == state.slots);
  // A stream takes all it can hold; otherwise half, so that what is freed next finds room.
  const unsigned wanted =
      stream ? state.capacity
             : static_cast<unsigned>(least<size_t>((state.capacity + 1u) / 2, most_wanted));
  if (room_may && magazines::decide(thread, size_class, &Trials::refills, 0) &&
      magazines::take(thread, request, wanted)) {
    return *bin.top--;
  }
  void** const highest = bin.top + wanted;
  const unsigned taken = fill(thread, request, highest, wanted);
  if (room_may) magazines::note_refill(thread, size_class, taken);
  if (taken == 0) return nullptr;
  close_gap(state.slots, taken, wanted);
  compiler_fence();  // as in deallocate
  bin.top += taken - 1;
  return bin.top[1];
}

bool push_slow(Thread* thread, SizeClass size_class, void* p) {
  if (LOFT_UNLIKELY(!core::own(thread, size_class))) return false;
  Bin& bin = thread->bins[size_class];
  BinState& state = thread->states[size_class];
  if (state.watched_pushes < kWatchedPushes) {
    check_freed(thread->heap, state.slots, count(bin, state), p);
    thread->counters.checked_frees.add(1);
    ++state.watched_pushes;
    set_limit(bin, state);
  }
  if (!has_room(thread, size_class) && !make_room(thread, size_class)) return false;
  bin.top[1] = p;
  compiler_fence();  // as in deallocate
  ++bin.top;
  return true;
}

void flush_all(Thread* thread) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    if (!core::own(thread, c)) continue;
    const BinState& state = thread->states[c];
    if (state.slots == nullptr) continue;
    if (state.depot != nullptr) flush_depot(thread, c, kAllOfIt);
    if (!whole(thread->bins[c], state)) continue;
    if (const unsigned objects = count(thread->bins[c], state); objects != 0) {
      flush(thread, c, objects);
    }
  }
  depot::release_spares(thread);
}

unsigned held(const Thread* thread, SizeClass size_class) {
  const BinState& state = thread->states[size_class];
  void** const slots = peek(state.slots);
  void** const top = thread->core != nullptr ? core::top(thread->core, size_class)
                                             : peek(thread->bins[size_class].top);
  const unsigned stashed = peek(state.stashed) * kMaxCapacity;
  // Of two different arrays, if the bin changes just now.
  if (slots == nullptr || top < slots || top >= slots + kMostSlots) return stashed;
  return static_cast<unsigned>(top - slots) + stashed;
}

void start_over(Thread* thread, bool keep_first_arrays) {
  const bool keep = keep_first_arrays && !limits::tight();
  size_t kept = 0;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    BinState& state = thread->states[c];
    if (state.slots == nullptr && state.last == SlowEvent::kNone) continue;  // nobody used it
    BinState fresh{};
    // What was watched need not be watched again for the block's next thread: the first frees of
    // each were a third of all instructions that one with fifty objects took.
    fresh.watched_pushes = state.watched_pushes;
    const size_t bytes = state.capacity * class_size(c);
    if (keep && state.capacity <= least_capacity(c) && bytes <= kKeptBytes) {
      LOFT_CHECK(count(thread->bins[c], state) == 0);
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
}

}  // namespace loft::bins
