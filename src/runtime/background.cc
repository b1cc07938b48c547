#include "runtime/background.h"

#include <errno.h>

#include "base/bits.h"
#include "base/macros.h"
#include "base/options.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "heap/registry.h"
#include "os/fault.h"
#include "os/limits.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "runtime/lifecycle.h"
#include "runtime/round.h"
#include "space/span.h"
#include "space/unused.h"

namespace loft::background {

constinit Atomic<uint32_t> state{kNotYet};
constinit Atomic<void (*)()> at_end_of_first_thread{nullptr};

namespace {

constexpr uint64_t kMillisecond = 1'000'000;

// A program that never grows beyond this has little to purge, and its looks end here.
constexpr size_t kWorthwhile = size_t{8} << 20;

// The interval at which the thread reads the group, and so its longest wait while it ticks.
constexpr uint64_t kWatch = 1000 * kMillisecond;

// What one look purges at most, and how many heaps it visits: some tenths of a millisecond.
constexpr Round::Share kLook = {8, size_t{1} << 20};
// A thread that looks seldom does more at a time: a share for each tick since its last look, up to
// so many.
constexpr size_t kMostShares = 16;
constexpr Round::Share kAll = {~0u, ~size_t{0}};
// What guests may read in a tick of the thread.
constexpr size_t kTickBytes = size_t{4} << 20;

// Where memory is tight, spans are purged after a fifth of decay_ms without use, or after half a
// second if that is less.
uint64_t tick_ns() {
  constexpr uint64_t kLongest = 1000'000'000;  // some days, for users who mean never
  const uint64_t decay = least<uint64_t>(get(options.decay_ms), kLongest);
  if (decay == 0) return kWatch;
  const uint64_t tick = decay / span::kDecayTicks;
  return most<uint64_t>(limits::tight() ? least<uint64_t>(tick / 5, 100) : tick, 10) * kMillisecond;
}

constinit os::Lock looking;  // guards the round, and the scan of hardened=full
constinit Round round;

// Relaxed: written under `looking`. Whoever acts on them takes it and reads them again.
constinit Atomic<uint64_t> last_tick{0};     // when the last round began
constinit Atomic<bool> is_under_way{false};  // the round has more to do

// Since the last round began; more than kDecayTicks make no difference.
unsigned ticks_until(uint64_t now) {
  const uint64_t passed = (now - last_tick.load(memory_order_relaxed)) / tick_ns();
  return static_cast<unsigned>(most<uint64_t>(least<uint64_t>(passed, span::kDecayTicks), 1));
}

bool is_due(uint64_t now) { return now >= last_tick.load(memory_order_relaxed) + tick_ns(); }

// What waits beyond this is worth a slow path of the next free.
constexpr size_t kWaiting = size_t{1} << 20;
// A thread asks itself this seldom, so that its slow paths stay few while it is at work.
constexpr uint32_t kAtWork = 3;  // units of the stamps below: 0.2 ms

// What was unused when the last round found nothing to do; 0 if it found something. Relaxed: a
// hint.
constinit Atomic<size_t> at_rest{0};

bool something_waits() {
  return is_under_way.load(memory_order_relaxed) ||
         unused::total() > at_rest.load(memory_order_relaxed) + kWaiting;
}

struct Asked {
  const ThreadCache* by;
  unsigned threads;
};

bool ask_one(void* context, ThreadCache* thread) {
  constexpr unsigned kMost = 64;
  Asked& asked = *static_cast<Asked*>(context);
  if (thread->processor == nullptr && thread != asked.by) bins::ask(thread);
  return ++asked.threads < kMost;
}

// The next call goes on with the next threads. Seldom, because a thread at rest leaves the question
// unanswered.
void ask_others(const ThreadCache* by, uint64_t now) {
  constexpr uint64_t kBetween = 10 * kMillisecond;
  static constinit Atomic<uint64_t> last{0};  // relaxed: a hint
  if (now - last.load(memory_order_relaxed) < kBetween || !lifecycle::visiting.try_lock()) return;
  last.store(now, memory_order_relaxed);
  Asked asked = {by, 0};
  lifecycle::visit_threads(ask_one, &asked);
  lifecycle::visiting.unlock();
}

// Of the calling thread: when it last went on with a round, and when it last asked. In units of
// 65536 ns, modulo 2^32: what threads keep for a library is scarce.
constexpr unsigned kStampLog = 16;
uint32_t stamp(uint64_t now) { return static_cast<uint32_t>(now >> kStampLog); }
LOFT_TLS __thread uint32_t looked_at = 0;
LOFT_TLS __thread uint32_t asked_at = 0;

LOFT_NOINLINE void ask(ThreadCache* thread, uint64_t now) {
  if (stamp(now) - asked_at < kAtWork) return;
  if (get(options.decay_ms) == 0 || !something_waits()) return;
  ask_others(thread, now);
  asked_at = stamp(now);
  bins::ask(thread);
}

Round::Share share_of(uint64_t now) {
  const uint32_t before = looked_at;
  looked_at = stamp(now);
  if (before == 0) return kLook;
  const size_t shares = most<size_t>(
      least<size_t>((uint64_t{stamp(now) - before} << kStampLog) / tick_ns(), kMostShares), 1);
  return {static_cast<unsigned>(shares) * kLook.heaps, shares * kLook.bytes};
}

// A whole round, by loft's thread. True if nothing is left to watch.
bool tick() {
  const os::Guard guard(looking);
  const uint64_t now = os::now_ns();
  const unsigned ticks = ticks_until(now);
  last_tick.store(now, memory_order_relaxed);
  const bool guests_are_done = guest::look(kTickBytes);
  if (get(options.decay_ms) == 0) return guests_are_done;
  while (!round.go_on(kAll, ticks)) {
  }
  is_under_way.store(false, memory_order_relaxed);
  return round.found_nothing() && guests_are_done;
}

void scan_anew() {
  const os::Guard guard(looking);
  guest::begin_looks();
}

// How long the thread sleeps where it has found nothing to do: twice as long each time. A slow
// path's look wakes it; what is left without a look waits for as long as this at most.
uint64_t longer(uint64_t nap) {
  constexpr uint64_t kLongestNap = 60'000 * kMillisecond;
  return least(nap == 0 ? 2 * tick_ns() : 2 * nap, kLongestNap);
}

// Goes over from one state to another, unless the thread is told to leave.
void change_state(uint32_t from, uint32_t to) {
  state.compare_exchange_strong(from, to, memory_order_relaxed);
}

// Returns when the thread is told to leave.
void watch() {
  const bool sees_group = get(options.cgroup) == kGroupWatch && os::leave_files();
  uint64_t watched = 0;
  uint64_t ticked = os::now_ns();
  uint64_t nap = 0;
  for (;;) {
    if (sees_group && get(options.cgroup) == kGroupWatch && os::now_ns() - watched >= kWatch) {
      watched = os::now_ns();
      limits::set_group(limits::read_group(limits::Read::kAll, limits::group()));
    }
    // If the program changed `cgroup` while the group was read, set_group may have used the old
    // value last.
    if (sees_group) limits::options_changed();
    const uint32_t before = nap == 0 ? kTicking : kAsleep;
    os::wait_on_word_for(&state, before, nap == 0 ? least(tick_ns(), kWatch) : nap);
    const uint32_t now_is = state.load(memory_order_relaxed);
    if (now_is != kTicking && now_is != kAsleep) return;
    if (now_is != before) {
      nap = 0;  // woken
      scan_anew();
      continue;
    }
    const uint64_t now = os::now_ns();
    if (now - ticked < (nap == 0 ? tick_ns() : nap)) continue;
    ticked = now;
    const bool is_done = tick() && !sees_group;
    nap = is_done ? longer(nap) : 0;
    is_done ? change_state(kTicking, kAsleep) : change_state(kAsleep, kTicking);
  }
}

void run() {
  census::do_without_cache();
  scan_anew();
  watch();
}

constinit os::OwnThread thread("loft-purge", state, {kNobody, kTicking, kLeaving, kRefused}, run);

// The process's first thread ends by itself while others go on. From now on, loft has no threads:
// the process ends with its last one, which must not be ours.
void leave() {
  if (auto* function = at_end_of_first_thread.load(memory_order_relaxed); function != nullptr) {
    function();
  }
  thread.end();
}

// Whether the heap has ever been that large, as far as looks saw.
bool was_worthwhile() {
  static constinit Atomic<bool> was{false};  // relaxed: a hint
  if (was.load(memory_order_relaxed)) return true;
  if (LOFT_LIKELY(span::counted() < kWorthwhile)) return false;
  was.store(true, memory_order_relaxed);
  return true;
}

// The ended thread's heap may have something to purge, and the thread makes no slow path any more.
void on_thread_end() {
  look_soon();
  look_after();
}

// Opens files before the program runs. None are opened after that, unless the program asks for it.
void look_at_group_now() {
  if (get(options.cgroup) == kGroupOff) return;
  limits::set_group(limits::read_group(limits::Read::kMax));
}

// Loft starts no threads if the end of the first thread cannot be observed. That is so if another
// thread has loaded loft.
void watch_first_thread(bool is_first) {
  if (!os::on_end_of_first_thread(leave, is_first)) leave();
}

constinit os::Lock following;
constinit uint64_t followed = 0;  // the option's value; under the lock

// A fork's child has no such thread, until it asks for one. A fork takes none of the locks here:
// whoever held them is not in the child, and may have left the round half done.
void in_child() {
  options.background.store(0, memory_order_relaxed);
  following.reset();
  followed = 0;
  forget_excess();
  looking.reset();
  round = Round();
  is_under_way.store(false, memory_order_relaxed);
  thread.forget();
  watch_first_thread(true);
}

// Under the lock. Returns 0 or an error's number.
int start_now() {
  if (thread.start([] { return true; }) || has_thread()) return 0;
  return state.load(memory_order_relaxed) == kRefused ? EPERM : EAGAIN;
}

// Starts or ends the thread as the option says.
LOFT_AT_LOAD void follow_option() {
  const os::Guard guard(following);
  const uint64_t wanted = get(options.background);
  if (followed == wanted) return;
  followed = wanted;
  if (wanted == 0) return thread.stop();
  if (const int error = start_now(); error != 0) {
    options.background.store(0, memory_order_relaxed);
    followed = 0;
    os::report(Text() << "background=on: "
                      << (error == EPERM ? "the process's first thread has ended, so loft starts "
                                           "no thread any more"
                                         : "the system gives no thread now"));
  }
}

LOFT_AT_LOAD void check_watch() {
  if (get(options.cgroup) != kGroupWatch || get(options.background) != 0) return;
  os::report(Text() << "cgroup=watch does what cgroup=soft does: it needs background=on");
}

LOFT_NOINLINE void go_on(uint64_t now) {
  if (!looking.try_lock()) return;
  const bool goes_on = is_under_way.load(memory_order_relaxed);
  if (goes_on || is_due(now)) {
    const Round::Share share = share_of(now);
    const unsigned ticks = ticks_until(now);
    if (!goes_on) last_tick.store(now, memory_order_relaxed);
    const bool is_whole = round.go_on(share, ticks);
    is_under_way.store(!is_whole, memory_order_relaxed);
    if (is_whole) at_rest.store(round.found_nothing() ? unused::total() : 0, memory_order_relaxed);
    if (!goes_on) guest::look(kLook.bytes);
  }
  looking.unlock();
}

}  // namespace

// Out of line and seldom: the clock is read here.
LOFT_NOINLINE void look() {
  slow_paths_left = kSlowPathsPerLook;
  if (LOFT_UNLIKELY(unused::is_too_much())) purge_excess();
  if (!was_worthwhile()) return;
  const uint32_t now_is = state.load(memory_order_relaxed);
  if (now_is == kNotYet || now_is == kTicking || now_is == kLeaving) return;
  if (now_is == kAsleep) {
    uint32_t expected = kAsleep;
    if (state.compare_exchange_strong(expected, kTicking, memory_order_relaxed)) {
      os::wake_one(&state);
    }
    return;
  }
  const uint64_t now = os::now_ns();
  // Most looks come between two ticks. These must not take the lock, to which all threads would
  // write.
  if (is_under_way.load(memory_order_relaxed) || (get(options.decay_ms) != 0 && is_due(now))) {
    go_on(now);
  }
  if (this_thread() != &empty_cache) ask(this_thread(), now);
}

// As if the option had been set: it says so, and may be set back.
int start() {
  const os::Guard guard(following);
  const int error = start_now();
  if (error == 0) options.background.store(followed = 1, memory_order_relaxed);
  return error;
}

bool has_thread() {
  const uint32_t now = state.load(memory_order_relaxed);
  return now == kTicking || now == kAsleep || now == kLeaving;
}

LOFT_AT_LOAD void enable() {
  os::on_fork(nullptr, nullptr, in_child);
  // First: it may find that loft can have no threads. The state is kRefused then, and stays.
  watch_first_thread(false);
  uint32_t expected = kNotYet;
  state.compare_exchange_strong(expected, kNobody, memory_order_relaxed);
  lifecycle::at_thread_end.store(on_thread_end, memory_order_relaxed);
  look_at_group_now();
  limits::set_address_space(os::address_space_limit());
  follow_option();
  check_watch();
}

void options_changed() {
  limits::options_changed();
  follow_option();
}

}  // namespace loft::background
