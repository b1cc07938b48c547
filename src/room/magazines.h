// Under the policy `keeper`: magazines, arrays of free objects that travel between a thread and the
// room, which has a thread of its own (room/room.h). For each class that a thread uses, and for
// which trials find that it pays (room/trial.h), the room fills one ahead of the thread's next
// refill, and empties what the thread flushed; both change hands whole, array against array. A
// thread for which nothing is ready, or nothing was taken yet, serves itself from the room's heap
// as under the policy `thread`: so nobody ever waits for the room, which may be slow, or gone.
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

// Through which one array at a time goes to the room and comes back. All but `state` belongs to
// whom the state names. The room touches a slot under its heap's lock alone: so who holds that
// lock, and acts for the thread (it ends, it empties its caches, it died in a fork), may take any
// slot's array.
//
//   kNone     there is no array
//   kThreads  a `ready` or `zeros` one is full, objects != 0; a `returned` one is empty
//   kRooms    a `ready` or `zeros` one is to be filled, or full (objects != 0) and not yet
//             prepared; a `returned` one is full, objects != 0
//   kInHand   the thread is exchanging it; seen by others only if it died in a fork just then
struct Slot {
  enum State : uint32_t { kNone, kThreads, kRooms, kInHand };

  Atomic<uint32_t> state{kNone};
  uint16_t capacity{};
  uint16_t objects{};  // slots[1] .. slots[objects]; slots[0] is null, as in a bin
  void** slots{};
};

struct alignas(kCacheLine) ClassMagazines {
  Slot ready;
  Slot returned;
  Slot zeros;  // with objects that read as zero, for calloc; there only if it is asked for
  // Of the next one to be filled; written before `ready`, or `zeros`, goes to the room.
  uint32_t asked{};  // bytes of a request
  uint32_t zeros_asked{};
  uint16_t wanted{};  // objects
  // How many of the slot's objects have been prepared; of no meaning while it is the thread's.
  uint16_t prepared{};
  uint16_t zeros_prepared{};
  bool late{};        // the thread's last refill found nothing ready
  bool zeros_used{};  // asked for since the last review
};
static_assert(sizeof(ClassMagazines) == kCacheLine);

// The thread's alone; made where trials decide.
struct Trials {
  Trial refills[kSizeClasses];
  Trial flushes[kSizeClasses];
};
using KindOfTrial = Trial (Trials::*)[kSizeClasses];

// A thread's, made when its first bin has grown, and its block's for ever.
struct Magazines {
  // A bit for each class whose slots the room is to look at. Not zero exactly while this is in the
  // list of those that call, or about to be.
  Atomic<uint64_t> calls{0};
  Magazines* next{};  // in that list
  Trials* trials{};   // nullptr until there is a use for them; the block's for ever
  ClassMagazines classes[kSizeClasses];
};
static_assert(kSizeClasses <= 64);

namespace magazines {

// --- The thread's side, on its slow paths. The thread's heap is the room's. ---

// Whether there is a room. Relaxed: who sees it late serves itself once more, or calls in vain.
inline bool in_use();

// The room serves all that it can, and not what trials say.
inline bool always() {
  return get(options.keeper_serves) == kServesAlways || get(options.keeper_prepare) != kPrepareOff;
}

// Where there is a room, for a refill or a flush that is about to begin: false where the thread
// serves itself, and nothing below is to be asked. All that a room costs a thread for which it does
// not pay.
inline bool may_serve(Thread* thread, SizeClass size_class, KindOfTrial kind);

// Where it may: decides whether the room is to serve it. So many objects will be flushed; of a
// refill that is known when it is done.
bool decide(Thread* thread, SizeClass size_class, KindOfTrial kind, unsigned objects);

// Where the room may have served a refill, and did not: what it brought.
void note_refill(Thread* thread, SizeClass size_class, unsigned objects);

// As bins::refill, and as bins::flush for push_slow, where there is a room: by the room, if that is
// decided and it is ready.
void* refill(Thread* thread, Request request);
void flush(Thread* thread, SizeClass size_class, unsigned objects);

// The block's next thread makes its own.
void forget_trials(Thread* thread);

// For a refill of an empty bin by `wanted` objects: the next magazine takes the place of its array,
// if one is ready, and one of so many objects is called for. A bin with a depot has no need of it:
// while there is one, the bin's array is of the largest size.
bool take(Thread* thread, Request request, unsigned wanted);

// For a flush of the `objects` oldest objects of a full bin. False: nothing has changed.
bool hand_over(Thread* thread, SizeClass size_class, unsigned objects);

// For calloc, where the option keeper_prepare says so: an object that reads as zero, if one is
// ready; otherwise nullptr.
void* take_zero(Thread* thread, Request request);

// The last refill of the class found nothing ready, and it is for the room to keep ahead.
bool late(const Thread* thread, SizeClass size_class);

// Now and then, by the thread: what nobody has asked for since the last time goes back.
void review(Thread* thread, SizeClass size_class);

// Everything in the thread's magazines goes back to the heap, and the arrays too. By the thread, or
// by who acts for it.
void empty(Thread* thread);
void empty_class(Thread* thread, SizeClass size_class);

// Objects, read beside the running thread and the room: about right.
struct Held {
  unsigned ready, returned, zeros;

  unsigned all() const { return ready + returned + zeros; }
};
Held held(const Thread* thread, SizeClass size_class);

// In the child of a fork, for each block there is, in use or not: the room is gone, and with it the
// list of those that have called.
void forget_calls(Thread* thread);

// --- The room's side. ---

// In a magazine of cleared ones: few enough to be still in a cache when they are asked for.
inline constexpr size_t kZerosBytes = size_t{64} << 10;
inline unsigned most_zeros(SizeClass size_class) {
  return static_cast<unsigned>(most<size_t>(kZerosBytes / class_size(size_class), 1));
}

// Gives all objects of a slot but the `rest` first ones back to the heap, whose lock is held.
void put_back(Heap* heap, SizeClass size_class, Slot& slot, unsigned rest);

// Those that have called since the last time; the first of a list.
Magazines* take_calls();
bool anybody_calls();

// Does what one of them calls for. Returns the next one.
Magazines* serve(Heap* room, Magazines* magazines);

}  // namespace magazines

// What the room's thread sleeps on, and how it is started by those who do not know it.
namespace room {

enum State : uint32_t {
  kNoRoom,   // the policy is another one
  kNobody,   // no thread at the moment
  kRefused,  // none can be had, or none would be of use
  kLeaving,  // it was told to end
  kAwake,
  kAsleep,
};

extern LOFT_HIDDEN Atomic<uint32_t> state;
extern LOFT_HIDDEN Atomic<void (*)()> start;  // set once, when the library is loaded

// On a slow path of malloc that has not begun its work yet: starting a thread allocates.
inline void look_after() {
  if (LOFT_LIKELY(state.load(memory_order_relaxed) != kNobody)) return;
  if (auto* call = start.load(memory_order_relaxed); call != nullptr) call();
}

// The caller has called, and found that it has to serve itself. The fence pairs with the room's,
// between its store of kAsleep and its last look at the list: one of the two sees the other, so no
// call is slept over. The exchange lets one of many wake it; relaxed, as the futex orders nothing
// that anybody relies on.
inline void wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
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
