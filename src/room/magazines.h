// Magazines, under owner=room: arrays of free objects that travel between a thread and the room,
// which has a thread of its own (room/room.h). For each class that a thread uses, and for which
// trials show a gain (room/trial.h), the room (a) fills an array ahead of the thread's next refill,
// and (b) empties the array of its last flush. Both are exchanged whole, array for array.
//
// If no array is ready, or the last flush is not emptied yet, the thread serves itself from the
// room's heap, as under owner=thread. So no thread ever waits for the room, which may be slow or
// gone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/options.h"
#include "cache/bins.h"
#include "cache/thread.h"
#include "os/os.h"
#include "room/trial.h"

namespace loft {

// One array at a time passes through a slot, to the room and back. Every field except `state`
// belongs to the side that the state names. The room touches a slot only under its heap's lock. So
// the thread, with that lock, may take the array of any slot. It does so when it (a) ends, or
// (b) empties its caches.
//
//   kNone     there is no array
//   kThreads  `ready` and `zeros` are full, objects != 0; `returned` is empty
//   kRooms    `ready` and `zeros` are to be filled, or are full (objects != 0) and not yet
//             prepared; `returned` is full, objects != 0
struct Slot {
  enum State : uint32_t { kNone, kThreads, kRooms };

  Atomic<uint32_t> state{kNone};
  uint16_t capacity{};
  uint16_t objects{};  // slots[1] .. slots[objects]; slots[0] is null, as in a bin
  void** slots{};
};

struct alignas(kCacheLine) ClassMagazines {
  Slot ready;
  Slot returned;
  Slot zeros;  // with objects that read as zero, for calloc; no array before the first request
  // For the next array to be filled. Written before `ready` or `zeros` passes to the room.
  uint32_t asked{};  // bytes of a request
  uint32_t zeros_asked{};
  uint16_t wanted{};  // objects
  // Number of the slot's objects prepared so far. Meaningless while the slot is the thread's.
  uint16_t prepared{};
  uint16_t zeros_prepared{};
  bool late{};        // the last refill found nothing ready, although the room was awake
  bool zeros_used{};  // requested since the last review
};
static_assert(sizeof(ClassMagazines) == kCacheLine);

// Private to the thread. Made only if trials decide (not always()).
struct Trials {
  Trial refills[kSizeClasses];
  Trial flushes[kSizeClasses];
};
using KindOfTrial = Trial (Trials::*)[kSizeClasses];

// The magazines of a thread. Made after its first bin has grown; stays with its block for ever.
struct Magazines {
  // One bit for each class whose slots the room is to look at. Nonzero exactly while this is in the
  // list of callers, or about to enter it.
  Atomic<uint64_t> calls{0};
  Magazines* next{};  // in that list
  Trials* trials{};   // nullptr until first needed; stays with the block for ever
  ClassMagazines classes[kSizeClasses];
};
static_assert(kSizeClasses <= 64);

namespace magazines {

// --- The thread's side, on its slow paths. The thread's heap is the room's heap. ---

// Whether the room has a thread. Relaxed: with a stale answer, a thread serves itself once more, or
// calls in vain.
inline bool in_use();

// The room serves all that it can, without trials.
inline bool always() {
  return get(options.room_serves) == kServesAlways || get(options.room_prepare) != kPrepareOff;
}

// The first question before a refill or a flush, if in_use(). False: the thread serves itself, and
// calls nothing below. A thread for which the room does not pay has no other cost.
inline bool may_serve(Thread* thread, SizeClass size_class, KindOfTrial kind);

// The second question, if may_serve: whether the room is to serve this refill or flush. `objects`
// is the number about to be flushed. For a refill it is 0; note_refill reports the number later.
bool decide(Thread* thread, SizeClass size_class, KindOfTrial kind, unsigned objects);

// After may_serve: how many objects a refill brought, whichever side served it.
void note_refill(Thread* thread, SizeClass size_class, unsigned objects);

// Stand in for bins::refill, and for bins::flush in push_slow, while in_use(). The room serves if
// decide() says so and it is ready; otherwise the thread serves itself.
void* refill(Thread* thread, Request request);
void flush(Thread* thread, SizeClass size_class, unsigned objects);

// Resets the trials: the block's next thread makes its own.
void forget_trials(Thread* thread);

// Refills an empty bin by exchange. If a magazine is ready, it replaces the bin's array, and the
// result is true. A magazine of `wanted` objects is requested in its place. A bin with a depot has
// no need of this: while it has one, its array is of the largest size.
bool take(Thread* thread, Request request, unsigned wanted);

// Flushes the `objects` oldest objects of a full bin by exchange. False: the bin is unchanged.
bool hand_over(Thread* thread, SizeClass size_class, unsigned objects);

// For calloc, under room_prepare=zero: an object that reads as zero, or nullptr if none is ready.
void* take_zero(Thread* thread, Request request);

// Whether the room is to serve refills of the class, and was late for the last one.
bool late(const Thread* thread, SizeClass size_class);

// Part of the thread's periodic review of a bin. Empties (a) `ready` or `returned`, if trials rest
// at the thread's own way; (b) `zeros`, if not requested since the last review; (c) all of the
// class, if the room's thread has left.
void review(Thread* thread, SizeClass size_class);

// Returns all objects in the thread's magazines to the heap, and releases the arrays.
void empty(Thread* thread);
void empty_class(Thread* thread, SizeClass size_class);

// Numbers of objects, read while the thread and the room run: approximate.
struct Held {
  unsigned ready, returned, zeros;

  unsigned all() const { return ready + returned + zeros; }
};
Held held(const Thread* thread, SizeClass size_class);

// In the child of a fork, of a thread that the child does not have: returns what its magazines
// hold, and leaves them as new. The thread may have been between any two stores. A slot holds what
// its `objects` says, because that is 0 while its array is exchanged. Called before bins::inherit.
void inherit(Thread* dead);

// Called in the child of a fork, for every block, in use or not. The room is gone, and the list of
// callers with it.
void forget_calls(Thread* thread);

// --- The room's side. ---

// Size of a magazine of cleared objects. They are to be still in a CPU cache when requested.
inline constexpr size_t kZerosBytes = size_t{64} << 10;
inline unsigned most_zeros(SizeClass size_class) {
  return static_cast<unsigned>(most<size_t>(kZerosBytes / class_size(size_class), 1));
}

// Returns all objects of a slot except the first `rest` to the heap. Under the heap's lock.
void put_back(Heap* heap, SizeClass size_class, Slot& slot, unsigned rest);

// Takes the list of callers since the last time. Returns its first element.
Magazines* take_calls();
bool anybody_calls();

// Does the work that one caller requests. Returns the next caller.
Magazines* serve(Heap* room, Magazines* magazines);

}  // namespace magazines

// The word on which the room's thread sleeps.
namespace room {

enum State : uint32_t {
  kNoRoom,   // another owner was chosen
  kNobody,   // no thread at the moment
  kRefused,  // no thread can be had, or it would be of no use
  kLeaving,  // it was told to end
  kAwake,
  kAsleep,
};

extern LOFT_HIDDEN Atomic<uint32_t> state;

// For a thread that has called and has to serve itself. The fence pairs with the fence in sleep
// (room.cc). The caller stores its call, then loads the state; the room stores kAsleep, then loads
// the list. Only seq_cst orders a store before a later load. So at least one side sees the other's
// store, and the room does not sleep through a call. The exchange lets one of many callers wake it.
// Relaxed: nothing relies on an order by the futex.
inline void wake() {
  thread_fence(memory_order_seq_cst);
  if (LOFT_LIKELY(state.load(memory_order_relaxed) != kAsleep)) return;
  uint32_t expected = kAsleep;
  if (state.compare_exchange_strong(expected, kAwake, memory_order_relaxed)) {
    os::wake_one(&state);
  }
}

}  // namespace room

inline bool magazines::in_use() {
  return LOFT_UNLIKELY(room::state.load(memory_order_relaxed) >= room::kAwake);
}

inline bool magazines::may_serve(Thread* thread, SizeClass size_class, KindOfTrial kind) {
  Trials* const trials = thread->magazines == nullptr ? nullptr : thread->magazines->trials;
  return trials == nullptr || always() || !(trials->*kind)[size_class].passes(Trial::kOwn);
}

}  // namespace loft
