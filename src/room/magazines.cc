#include "room/magazines.h"

#include <new>

#include "base/peek.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "heap/registry.h"
#include "limits/limits.h"
#include "os/fault.h"
#include "slab/slab.h"
#include "space/metadata.h"

namespace loft {

namespace room {
constinit Atomic<uint32_t> state{kNoRoom};
}  // namespace room

namespace magazines {

namespace {

// The callers: a stack onto which each pushes itself. The room takes it whole.
constinit Atomic<Magazines*> calling{nullptr};

uint64_t bit_of(SizeClass size_class) { return uint64_t{1} << size_class; }

// The thread's magazines of a class; nullptr if it may have none. It may have magazines once its
// bin has grown, which shows that the class is used.
ClassMagazines* of_class(Thread* thread, SizeClass size_class) {
  // Before the test of the capacity: a bin that shrinks while memory is tight leaves its magazines
  // for this.
  if (LOFT_UNLIKELY(limits::tight() || thread->heap != registry::common_heap())) {
    empty_class(thread, size_class);
    return nullptr;
  }
  if (thread->states[size_class].capacity <= bins::first_capacity(size_class)) return nullptr;
  if (LOFT_UNLIKELY(thread->magazines == nullptr)) {
    void* block = metadata::allocate(sizeof(Magazines));
    if (block == nullptr) return nullptr;
    thread->magazines = new (block) Magazines;
  }
  return &thread->magazines->classes[size_class];
}

// `late`: the caller serves itself, because the room is behind, or asleep.
void call(Thread* thread, SizeClass size_class, bool late) {
  Magazines* const mine = thread->magazines;
  // Pairs with the exchange in serve. Release: a room that takes this bit sees the slot. Acquire: a
  // room that took the last call has read `next`, so `next` may be written.
  if (mine->calls.fetch_or(bit_of(size_class), memory_order_acq_rel) == 0) {
    mine->next = calling.load(memory_order_relaxed);
    // Release pairs with the acquire in take_calls: `next` is visible. This holds for earlier
    // callers, too: an exchange continues the release sequence of the store that it replaces.
    while (!calling.compare_exchange_weak(mine->next, mine, memory_order_release,
                                          memory_order_relaxed)) {
    }
  }
  if (late) room::wake();
}

// A slot never names an array with another's capacity, for inherit.
void set_array(Slot& slot, bins::Array array) {
  slot.slots = nullptr;
  compiler_fence();
  slot.capacity = array.capacity;
  compiler_fence();
  slot.slots = array.slots;
}

// Gives a slot of the thread's an array of at least `capacity`, if it has none, or a smaller one.
// The capacity counts against the thread's budget as a bin's does, because arrays move between the
// two. False without memory, or beyond the budget.
bool fit(Thread* thread, SizeClass size_class, Slot& slot, unsigned capacity) {
  if (LOFT_LIKELY(slot.slots != nullptr && slot.capacity >= capacity)) return true;
  if (!bins::charge(thread, size_class, slot.capacity, capacity)) return false;
  void** array = bins::make_array(capacity);
  if (array == nullptr) {
    thread->capacity_bytes -= (capacity - slot.capacity) * class_size(size_class);
    return false;
  }
  const bins::Array old = {slot.slots, slot.capacity};
  set_array(slot, {array, static_cast<uint16_t>(capacity)});
  compiler_fence();  // out of the slot before it is released
  if (old.slots != nullptr) bins::release_array_of(old.slots, old.capacity);
  return true;
}

// Swaps the arrays of bin and slot. The bin then holds `objects` objects.
void exchange(Thread* thread, SizeClass size_class, Slot& slot, unsigned objects) {
  set_array(slot, bins::exchange(thread, size_class, {slot.slots, slot.capacity}, objects));
}

// Under the heap's lock.
void empty_slot(Thread* thread, SizeClass size_class, Slot& slot) {
  if (slot.slots != nullptr) {
    put_back(thread->heap, size_class, slot, 0);
    bins::release_array_of(slot.slots, slot.capacity);
    thread->capacity_bytes -= slot.capacity * class_size(size_class);
  }
  slot.slots = nullptr;
  slot.capacity = slot.objects = 0;
  slot.state.store(Slot::kNone, memory_order_relaxed);
}

Trials* trials_of(const Thread* thread) {
  return thread->magazines == nullptr ? nullptr : thread->magazines->trials;
}

// nullptr if the thread has no magazines of the class, or without memory.
Trials* make_trials(Thread* thread, SizeClass size_class) {
  if (of_class(thread, size_class) == nullptr) return nullptr;
  Trials*& trials = thread->magazines->trials;
  if (LOFT_UNLIKELY(trials == nullptr)) {
    void* block = metadata::allocate(sizeof(Trials));
    if (block != nullptr) trials = new (block) Trials;
  }
  return trials;
}

Trial::Way begin(Trial& trial) { return trial.begin(trial.wants_time() ? os::now_ns() : 0); }

}  // namespace

void put_back(Heap* heap, SizeClass size_class, Slot& slot, unsigned rest) {
  bins::put_back(heap, size_class, slot.slots + 1 + rest, slot.slots + 1 + slot.objects,
                 batch_cache::send_single);
  slot.objects = static_cast<uint16_t>(rest);
}

bool decide(Thread* thread, SizeClass size_class, KindOfTrial kind, unsigned objects) {
  if (always()) return true;
  Trials* const trials = make_trials(thread, size_class);
  if (trials == nullptr) return false;
  Trial& trial = (trials->*kind)[size_class];
  const bool by_room = begin(trial) == Trial::kRoom;
  trial.note(objects);
  return by_room;
}

void note_refill(Thread* thread, SizeClass size_class, unsigned objects) {
  if (Trials* trials = trials_of(thread); trials != nullptr) {
    trials->refills[size_class].note(objects);
  }
}

void* refill(Thread* thread, Request request) {
  const SizeClass c = request.size_class;
  if (thread->states[c].depot != nullptr || !may_serve(thread, c, &Trials::refills)) {
    return bins::refill(thread, request);
  }
  // A stream that is faster than the room may grow its bin further, so that the room keeps ahead.
  const unsigned wanted = bins::plan_refill(thread, c, late(thread, c));
  if (wanted != 0 && decide(thread, c, &Trials::refills, 0) && take(thread, request, wanted)) {
    return thread->bins[c].pop();
  }
  void* const object = bins::fill_bin(thread, request, wanted);
  if (wanted != 0) note_refill(thread, c, object == nullptr ? 0 : bins::count(thread, c) + 1);
  return object;
}

void flush(Thread* thread, SizeClass size_class, unsigned objects) {
  if (may_serve(thread, size_class, &Trials::flushes) &&
      decide(thread, size_class, &Trials::flushes, objects) &&
      hand_over(thread, size_class, objects)) {
    return;
  }
  bins::flush(thread, size_class, objects);
}

void forget_trials(Thread* thread) {
  // In place: a copy would take 7 KB of stack.
  if (Trials* trials = trials_of(thread); trials != nullptr) new (trials) Trials{};
}

bool take(Thread* thread, Request request, unsigned wanted) {
  const SizeClass size_class = request.size_class;
  ClassMagazines* const mine = of_class(thread, size_class);
  if (mine == nullptr) return false;
  Slot& slot = mine->ready;
  // Acquire pairs with the release in fill_slot: the objects are visible.
  const uint32_t state = slot.state.load(memory_order_acquire);
  // A sleeping room is not behind.
  mine->late = state == Slot::kRooms && room::state.load(memory_order_relaxed) == room::kAwake;
  if (state == Slot::kRooms) {
    thread->counters.room_late.add(1);
    call(thread, size_class, true);
    return false;
  }
  if (state == Slot::kNone) {
    if (!fit(thread, size_class, slot, thread->states[size_class].capacity)) return false;
  } else {
    const unsigned objects = slot.objects;
    slot.objects = 0;
    exchange(thread, size_class, slot, objects);
    note_refill(thread, size_class, objects);
    thread->counters.room_ready.add(1);
  }
  mine->asked = request.asked;
  LOFT_CHECK(wanted <= slot.capacity);
  mine->wanted = static_cast<uint16_t>(wanted);
  // Release pairs with the acquire in is_rooms: the room sees the array and the fields written for
  // it.
  slot.state.store(Slot::kRooms, memory_order_release);
  call(thread, size_class, state == Slot::kNone);
  return state == Slot::kThreads;
}

bool hand_over(Thread* thread, SizeClass size_class, unsigned objects) {
  ClassMagazines* const mine = of_class(thread, size_class);
  if (mine == nullptr) return false;
  Slot& slot = mine->returned;
  // Acquire pairs with the release in take_back: the room has read the whole array.
  const uint32_t state = slot.state.load(memory_order_acquire);
  if (state == Slot::kRooms) {
    thread->counters.room_behind.add(1);
    call(thread, size_class, true);
    return false;
  }
  const BinState& bin = thread->states[size_class];
  if (!fit(thread, size_class, slot, bin.capacity)) return false;
  // The younger objects stay: the thread's core has touched them last.
  const unsigned rest = bins::count(thread, size_class) - objects;
  __builtin_memcpy(slot.slots + 1, bin.slots + 1 + objects, rest * sizeof(void*));
  exchange(thread, size_class, slot, rest);
  compiler_fence();  // for inherit
  slot.objects = static_cast<uint16_t>(objects);
  thread->counters.flushes.add(1);
  thread->counters.room_returns.add(1);
  // Release pairs with the acquire in is_rooms: the room sees the objects.
  slot.state.store(Slot::kRooms, memory_order_release);
  call(thread, size_class, false);
  return true;
}

void* take_zero(Thread* thread, Request request) {
  const SizeClass size_class = request.size_class;
  ClassMagazines* const mine = of_class(thread, size_class);
  if (mine == nullptr) return nullptr;
  mine->zeros_used = true;
  Slot& slot = mine->zeros;
  // Acquire pairs with the release in fill_slot: the objects are visible, and cleared.
  const uint32_t state = slot.state.load(memory_order_acquire);
  void* object = nullptr;
  if (state == Slot::kThreads) {
    thread->counters.room_cleared.add(1);
    object = slot.slots[slot.objects];
    if (--slot.objects != 0) return object;
  } else if (state == Slot::kRooms) {
    // One call is enough unless the room sleeps. A thread that is ahead of the room comes here at
    // each calloc.
    const bool called =
        (thread->magazines->calls.load(memory_order_relaxed) & bit_of(size_class)) != 0;
    if (!called || room::state.load(memory_order_relaxed) == room::kAsleep) {
      call(thread, size_class, true);
    }
    return nullptr;
  } else if (!fit(thread, size_class, slot, most_zeros(size_class))) {
    return nullptr;
  }
  mine->zeros_asked = request.asked;
  // Release pairs with the acquire in is_rooms: the room sees the array and the fields written for
  // it.
  slot.state.store(Slot::kRooms, memory_order_release);
  call(thread, size_class, state == Slot::kNone);
  return object;
}

bool late(const Thread* thread, SizeClass size_class) {
  if (thread->magazines == nullptr || !thread->magazines->classes[size_class].late) return false;
  const Trials* const trials = trials_of(thread);
  return always() || (trials != nullptr && trials->refills[size_class].rests_at(Trial::kRoom));
}

void empty(Thread* thread) {
  if (thread->magazines == nullptr) return;
  for (SizeClass c = 0; c < kSizeClasses; ++c) empty_class(thread, c);
}

void review(Thread* thread, SizeClass size_class) {
  // A room that has left answers no calls.
  if (!in_use()) return empty_class(thread, size_class);
  if (thread->magazines == nullptr) return;
  ClassMagazines& mine = thread->magazines->classes[size_class];
  const auto empty_if = [&](bool unused, Slot& slot) {
    if (!unused || slot.state.load(memory_order_relaxed) == Slot::kNone) return;
    const os::Guard guard(thread->heap->lock());
    empty_slot(thread, size_class, slot);
  };
  if (const Trials* trials = trials_of(thread); trials != nullptr && !always()) {
    empty_if(trials->refills[size_class].rests_at(Trial::kOwn), mine.ready);
    empty_if(trials->flushes[size_class].rests_at(Trial::kOwn), mine.returned);
  }
  empty_if(!mine.zeros_used, mine.zeros);
  mine.zeros_used = false;
}

void empty_class(Thread* thread, SizeClass size_class) {
  if (thread->magazines == nullptr) return;
  ClassMagazines& its = thread->magazines->classes[size_class];
  its.late = false;
  if (its.ready.state.load(memory_order_relaxed) == Slot::kNone &&
      its.returned.state.load(memory_order_relaxed) == Slot::kNone &&
      its.zeros.state.load(memory_order_relaxed) == Slot::kNone) {
    return;
  }
  // The lock excludes the room. A slot that it has half filled or half emptied is consistent.
  const os::Guard guard(thread->heap->lock());
  empty_slot(thread, size_class, its.ready);
  empty_slot(thread, size_class, its.returned);
  empty_slot(thread, size_class, its.zeros);
}

Held held(const Thread* thread, SizeClass size_class) {
  const Magazines* const its = peek(thread->magazines);
  if (its == nullptr) return {};
  const ClassMagazines& of = its->classes[size_class];
  return {peek(of.ready.objects), peek(of.returned.objects), peek(of.zeros.objects)};
}

void inherit(Thread* dead) {
  if (dead->magazines == nullptr) return;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    ClassMagazines& its = dead->magazines->classes[c];
    const os::Guard guard(dead->heap->lock());
    for (Slot* slot : {&its.ready, &its.returned, &its.zeros}) {
      if (slot->slots == nullptr) continue;
      put_back(dead->heap, c, *slot, 0);
      // In the midst of an exchange, the bin may have the array already.
      if (slot->slots == dead->states[c].slots) continue;
      bins::release_array_of(slot->slots, slot->capacity);
    }
    new (&its) ClassMagazines{};
  }
}

void forget_calls(Thread* thread) {
  calling.store(nullptr, memory_order_relaxed);
  if (thread->magazines != nullptr) thread->magazines->calls.store(0, memory_order_relaxed);
}

// --- For the room: the callers. ---

// Acquire pairs with the release in call: `next` of each caller is visible.
Magazines* take_calls() { return calling.exchange(nullptr, memory_order_acquire); }
bool anybody_calls() { return calling.load(memory_order_relaxed) != nullptr; }

}  // namespace magazines
}  // namespace loft
