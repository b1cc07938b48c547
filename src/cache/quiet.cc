#include "cache/quiet.h"

#include "base/options.h"
#include "base/peek.h"
#include "cache/attention.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/large_cache.h"
#include "cache/lifecycle.h"
#include "cache/magazines.h"
#include "os/os.h"
#include "space/limits.h"
#include "space/span.h"

namespace loft::quiet {

namespace {

// One thread at a time goes round: lifecycle::visit_threads goes on where the last call ended.
// Taken before the lock of the list, and before a fork, so that nobody is found half emptied in its
// child.
constinit os::Lock round;

constexpr unsigned kLooks = 3;  // without a movement, before a thread is taken to be quiet

// Hiding a thread, and its finding its feet again, is some 100 microseconds of work: little for one
// that then sleeps on, much for thousands that wake up every second. A thread that woke shortly
// after it was hidden is restless, and hidden again only when it has slept for as long, or as one
// of the few that are at each look: by default two hundred in a second, 2 % of a processor.
constexpr unsigned kShortDecays = 20;  // times decay_ms
constexpr unsigned kShortLooks = kShortDecays * span::kDecayTicks;
constexpr unsigned kRestlessPerLook = 20;

// Under the lock of the round.
constinit unsigned restless_left = 0;

// What changes with every call that is not the exact undoing of another. A hint, read beside the
// running thread, with relaxed loads: if it misses something, a cache is emptied too early.
uint64_t activity_of(const Thread* thread) {
  uint64_t sum = 0;
  for (const Bin& bin : thread->bins) {
    const auto top = reinterpret_cast<uint64_t>(__atomic_load_n(&bin.top, __ATOMIC_RELAXED));
    sum = (sum ^ top) * 0x9E3779B97F4A7C15u;
  }
  for (unsigned place = 0; place < kBatches; ++place) {
    const uint64_t key = __atomic_load_n(&thread->batch_keys[place], __ATOMIC_RELAXED);
    if (key == kNoSlab) continue;
    sum = (sum ^ key ^
           uint64_t{__atomic_load_n(&thread->batches()[place].room, __ATOMIC_RELAXED)} << 32) *
          0x9E3779B97F4A7C15u;
  }
  return sum + thread->counters.flushes.get() + thread->counters.batches_sent.get() +
         thread->counters.large_hits.get() + thread->counters.room_cleared.get();
}

void set_self(Thread* thread, Thread* to) {
  __atomic_store_n(thread->quiet.place_of_self, to, __ATOMIC_RELAXED);
}

// Under the thread's quiet lock. Makes the thread's next call fail on a stand-in. Then, if it ran
// at all since before that, or is anywhere but in a wait of its own, it may have loaded its `self`
// before, and is left alone. Otherwise
//   - the fence has made the stand-in visible before the second look at the clock, and the thread
//     has not run until then: whatever it does later sees the stand-in, waits for the quiet lock in
//     wake(), and so for the end of what we do;
//   - what it wrote before it fell asleep is visible to us: it has passed through the scheduler.
// A thread may wait inside a signal handler that interrupted a call on its fast path. Of such a
// call it holds the block, and one object or place: the tops of the bins are therefore left alone
// (bins::withdraw), and an object on its way into a batch that we sent stays where it is for ever.
//
// Where the system can show that no handler is running on the thread, it waits in a system call of
// its own: fast paths make none, so it is between two calls, and whatever comes next begins with
// the stand-in. Then the tops go, too, and with them some twenty pages, and up to 200 KiB of larger
// objects, of a thread that used all sizes. That is looked at before the second look at the clock,
// and so of the same wait. (A handler that leaves a call of malloc by switching to another stack,
// to come back later, may not exist: in between, no call of malloc could be made on the thread
// under any allocator.)
bool hide(Thread* thread) {
  Quiet& quiet = thread->quiet;
  const uint64_t time = os::thread_time_ns(quiet.number);
  if (time == 0) {
    // The thread is past its end, and its `self` may be gone: never looked at again.
    quiet.place_of_self = nullptr;
    return false;
  }
  set_self(thread, &stand_in);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool waits = os::thread_waits(quiet.number);
  // Thread-local storage lies at the end of the stack, but for the process's first thread.
  const bool by_itself = waits && os::thread_waits_by_itself(quiet.number, quiet.place_of_self);
  if (waits && os::thread_time_ns(quiet.number) == time &&
      __atomic_load_n(&quiet.busy, __ATOMIC_RELAXED) == 0) {
    quiet.hidden = true;
    quiet.between_calls = by_itself;
    quiet.hidden_at = os::now_ns();
    thread->counters.hidden.add(1);
    return true;
  }
  set_self(thread, thread);
  return false;
}

// Under the quiet lock of a hidden thread. Returns the bytes of holes that were given back.
//
// The bins of a thread that is in the midst of no call start over. (Left as they were, only empty,
// they looked like those of a stream of allocations, and grew every time that it woke.)
size_t empty(Thread* thread, Heap::Walk walk) {
  if (thread->heap != nullptr) {
    magazines::empty(thread);
    if (thread->quiet.between_calls) {
      bins::flush_all(thread);
      bins::start_over(thread, true);
    } else {
      bins::withdraw(thread);
    }
  }
  batch_cache::send_all_hidden(thread);
  large_cache::release_all(thread);
  if (thread->heap == nullptr || thread->heap == lifecycle::room_heap()) return 0;
  const os::Guard guard(thread->heap->lock());
  return thread->heap->rest(&thread->quiet.lock, walk);
}

// Under the quiet lock of a thread that calls nothing, but was not hidden: it computes. What is in
// its caches is its own, but not the slabs. Or it waits in the midst of a call, for as long as it
// likes, perhaps with the heap's lock: nobody waits for that here.
void rest_at_work(Thread* thread) {
  Heap* const heap = peek(thread->heap);
  if (heap == nullptr || heap == lifecycle::room_heap() || !heap->lock().try_lock()) return;
  heap->rest(&thread->quiet.lock, Heap::Walk::kAtWork);
  heap->lock().unlock();
}

// The next thread to be emptied, with its quiet lock held: one at a time, so that none waits for
// the emptying of another.
struct Chosen {
  Thread* thread = nullptr;
  bool all_hidden = true;
};

// Whether it is one of few that may be hidden at a look.
bool is_rationed(const Quiet& quiet) {
  return !quiet.hidden && quiet.restless && quiet.looks < kShortLooks;
}

bool wants_emptying(Thread* thread) {
  Quiet& quiet = thread->quiet;
  if (quiet.hidden) {
    Heap* heap = thread->heap;
    return heap != nullptr && heap != lifecycle::room_heap() &&
           (heap->inbox().maybe_pending() || !heap->rested());
  }
  const uint64_t activity = activity_of(thread);
  quiet.looks = activity == quiet.activity ? quiet.looks + 1 : 0;
  quiet.activity = activity;
  if (quiet.looks < kLooks) return false;
  // One whose calls undo each other has not moved either; whether it slept, its clock tells.
  if (quiet.restless && (quiet.looks == kLooks || quiet.looks >= kShortLooks)) {
    const uint64_t ran = os::thread_time_ns(quiet.number);
    if (ran != quiet.ran) quiet.looks = kLooks;
    quiet.ran = ran;
  }
  return !is_rationed(quiet) || restless_left != 0 || limits::tight();
}

size_t bytes_in_caches(const Thread* thread) {
  size_t bytes = 0;
  for (const uint8_t& granules : thread->large.granules) {
    bytes += size_t{peek(granules)} << kGranuleLog;
  }
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    bytes += (bins::held(thread, c) + magazines::held(thread, c).all()) * class_size(c);
  }
  return bytes;
}

struct Sweep {
  Thread* thread = nullptr;  // as in Chosen
  unsigned long unreached = 0;
};

bool choose_any(void* context, Thread* thread) {
  Sweep& sweep = *static_cast<Sweep*>(context);
  if (thread == this_thread()) return true;
  if (!thread->quiet.lock.try_lock()) {
    ++sweep.unreached;
    return true;
  }
  // It is ending: its block may be another's at any time.
  if (thread->quiet.place_of_self == nullptr) {
    ++sweep.unreached;
    thread->quiet.lock.unlock();
    return true;
  }
  sweep.thread = thread;
  return false;
}

bool choose(void* context, Thread* thread) {
  Chosen& chosen = *static_cast<Chosen*>(context);
  Quiet& quiet = thread->quiet;
  // Held by the thread itself if by anybody: it is waking up.
  if (!quiet.lock.try_lock()) {
    chosen.all_hidden = false;
    return true;
  }
  const bool wanted = quiet.place_of_self != nullptr && wants_emptying(thread);
  if (!quiet.hidden && quiet.place_of_self != nullptr) chosen.all_hidden = false;
  if (!wanted) {
    quiet.lock.unlock();
    return true;
  }
  // What it sends may be for threads that were looked at before it.
  chosen.all_hidden = false;
  chosen.thread = thread;
  return false;
}

}  // namespace

bool rest_room() {
  Heap* room = lifecycle::room_heap();
  if (room == nullptr) return true;
  if (room->rested() && !room->inbox().maybe_pending()) return true;
  if (!room->lock().try_lock()) return false;
  // Guarded by the lock.
  static constinit unsigned long refills_seen = 0;
  static constinit unsigned looks = 0;
  const unsigned long refills = room->counters().refills.get();
  looks = refills == refills_seen ? looks + 1 : 0;
  refills_seen = refills;
  if (looks >= kLooks) room->rest(nullptr, Heap::Walk::kNowAndThen);
  room->lock().unlock();
  return false;
}

bool look() {
  if (!os::kSeesWaitingThreads) return true;
  // Somebody is at it: then there will be something to look at again.
  if (!round.try_lock()) return false;
  bool all_hidden = true;
  restless_left = kRestlessPerLook;
  lifecycle::start_over();
  for (bool round_ends = false; !round_ends;) {
    Chosen chosen;
    round_ends = lifecycle::visit_threads(choose, &chosen);
    all_hidden = all_hidden && chosen.all_hidden;
    if (Thread* thread = chosen.thread; thread != nullptr) {
      const bool rationed = is_rationed(thread->quiet);
      if (thread->quiet.hidden || hide(thread)) {
        if (rationed && restless_left != 0) --restless_left;
        empty(thread, Heap::Walk::kNowAndThen);
      } else {
        rest_at_work(thread);
      }
      thread->quiet.lock.unlock();
    }
    // A fork waits, or a purge: the others' turn comes with the next look, as these are hidden now.
    if (LOFT_UNLIKELY(round.has_sleepers())) {
      all_hidden = false;
      break;
    }
  }
  round.unlock();
  return all_hidden;
}

Swept empty_all() {
  Swept swept{};
  if (!os::kSeesWaitingThreads) return swept;
  const os::Guard guard(round);
  lifecycle::start_over();
  for (bool round_ends = false; !round_ends;) {
    Sweep sweep;
    round_ends = lifecycle::visit_threads(choose_any, &sweep);
    swept.unreached_threads += sweep.unreached;
    if (Thread* thread = sweep.thread; thread != nullptr) {
      if (thread->quiet.hidden || hide(thread)) {
        thread->quiet.hidden_at = 0;  // not because it slept: its waking says nothing
        swept.given_back += empty(thread, Heap::Walk::kNow);
      } else {
        ++swept.unreached_threads;
        swept.unreached_bytes += bytes_in_caches(thread);
      }
      thread->quiet.lock.unlock();
    }
  }
  return swept;
}

void prepare_fork() { round.lock(); }
void finish_fork(bool child) { round.after_fork(child); }

namespace {

// Under the quiet lock. The mark goes last: in the child of a fork in between, this is done again,
// which it bears.
void become_visible(Thread* thread) {
  if (!thread->quiet.hidden) return;
  thread->quiet.looks = 0;
  if (thread->quiet.hidden_at != 0) {
    constexpr uint64_t kHour = 3'600'000;  // in milliseconds
    const uint64_t short_ns = least(get(options.decay_ms), kHour) * kShortDecays * 1'000'000;
    thread->quiet.restless = os::now_ns() - thread->quiet.hidden_at < short_ns;
  }
  bins::settle(thread);
  batch_cache::forget_late(thread);
  compiler_fence();
  thread->quiet.hidden = false;
}

}  // namespace

void begin_wait() {
  Thread* thread = lifecycle::attach();
  if (thread == nullptr || thread->quiet.place_of_self == nullptr) return;
  const os::Guard guard(thread->quiet.lock);
  // While it waited for the lock, it may have been taken for one that sleeps.
  set_self(thread, thread);
  become_visible(thread);
  thread->quiet.between_calls = true;  // this one is for no signal handler
  thread->quiet.hidden_at = 0;         // and the program's wish
  thread->counters.hidden.add(1);
  empty(thread, Heap::Walk::kNowAndThen);
  // Last: in the child of a fork in between, what is in its batches is given up as any thread's is.
  compiler_fence();
  thread->quiet.hidden = true;
  compiler_fence();
  set_self(thread, &stand_in);
}

void wake(Thread* thread) {
  {
    const os::Guard guard(thread->quiet.lock);
    set_self(thread, thread);
    become_visible(thread);
  }
  attention::raise();
}

void retire(Thread* thread) {
  const os::Guard guard(thread->quiet.lock);
  thread->quiet.place_of_self = nullptr;
  become_visible(thread);
}

}  // namespace loft::quiet
