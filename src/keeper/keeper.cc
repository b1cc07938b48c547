#include "keeper/keeper.h"

#include "base/bits.h"
#include "base/options.h"
#include "cache/attention.h"
#include "cache/core.h"
#include "cache/large_transfer.h"
#include "cache/quiet.h"
#include "heap/registry.h"
#include "heap/user_heap.h"
#include "keeper/room.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "space/limits.h"
#include "space/span.h"
#include "space/tails.h"

namespace loft::keeper {

namespace {

using attention::state;

constexpr uint64_t kMillisecond = 1'000'000;

// A program that never grows beyond this has not much to give back, and starting a thread would be
// a good part of what it costs.
constexpr size_t kWorthwhile = size_t{8} << 20;

// How often the group's limits are looked at, and so the longest that a keeper waits while anybody
// is awake.
constexpr uint64_t kWatch = 1000 * kMillisecond;

// Where memory is tight, what nobody needed for a fifth of the time goes, or for half a second.
uint64_t tick_ns() {
  constexpr uint64_t kLongest = 1000'000'000;  // some days, for whoever says never
  const uint64_t decay = least<uint64_t>(get(options.decay_ms), kLongest);
  if (decay == 0) return kWatch;
  const uint64_t tick = decay / span::kDecayTicks;
  return most<uint64_t>(limits::tight() ? least<uint64_t>(tick / 5, 100) : tick, 10) * kMillisecond;
}

// `again`: it is looked at again soon. What is used at one moment would else be believed for ever.
void look_at_group(os::GroupReader& reader, bool again) {
  os::Group group = reader.read(limits::group());
  if (!again) group.used = 0;
  limits::set_group(group);
}

// Gives back up to `wanted` bytes of free spans. True if any went.
bool purge(size_t wanted) {
  const size_t before = wanted;
  while (wanted != 0) {
    const size_t given_back = span::purge_step(wanted);
    if (given_back == 0) break;
    wanted -= least(wanted, given_back);
  }
  return wanted != before;
}

// One tick. True if nothing is left to watch. Quiet threads are the keeper's alone: looking at them
// takes a file of the system, and the program's own threads have no table to open one in.
bool look_around(bool at_threads) {
  const bool none_passing = large_transfer::release_idle();
  const size_t dirty_before = span::totals().dirty;
  const bool all_quiet = at_threads && quiet::look();
  const bool room_rests = quiet::rest_room();
  const bool cores_rest = core::look();
  const bool parked_rest = registry::rest_parked();
  const bool users_rest = UserHeap::rest_all();
  tails::give_back(limits::hard() == limits::kNone ? span::kDecayTicks : 1);
  const size_t dirty = span::totals().dirty;
  // What quiet threads and heaps let go of has waited long enough.
  const size_t let_go = dirty > dirty_before ? dirty - dirty_before : 0;
  const size_t idle = span::idle_bytes();
  const bool gave = purge(least(idle + let_go, dirty));
  // What the system does not take back is no reason to stay awake.
  return all_quiet && room_rests && cores_rest && parked_rest && users_rest && none_passing &&
         tails::none() && !gave && idle == span::totals().dirty;
}

// Returns when it is told to leave.
void run() {
  const bool own_files = os::leave_files();
  os::GroupReader group;
  uint64_t watched = 0;
  uint64_t ticked = os::now_ns();
  for (;;) {
    if (own_files && get(options.cgroup) != kGroupOff && os::now_ns() - watched >= kWatch) {
      watched = os::now_ns();
      look_at_group(group, true);
    }
    os::wait_on_word_for(&state, attention::kTicking, least(tick_ns(), kWatch));
    if (state.load(memory_order_relaxed) == attention::kRefused) return;
    const uint64_t now = os::now_ns();
    if (get(options.decay_ms) == 0 || now - ticked < tick_ns()) continue;
    ticked = now;
    if (!look_around(own_files)) continue;
    // Asleep only if nobody was awake between two looks: who wakes up after the first, and found us
    // ticking, is seen by the second. The fence pairs with that in attention::raise.
    uint32_t expected = attention::kTicking;
    if (!state.compare_exchange_strong(expected, attention::kAsleep, memory_order_relaxed)) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!look_around(own_files)) attention::raise();
    while (state.load(memory_order_relaxed) == attention::kAsleep) {
      os::wait_on_word(&state, attention::kAsleep);
    }
  }
}

constinit os::OwnThread thread;

// The first thread ends by itself, and others go on: from now on they do without.
void leave() {
  room::leave();
  thread.end(state, attention::kRefused);
}

constinit os::Lock slow_path_lock;

// Without a keeper: at most one tick at a time, by whoever comes first.
void tick_on_a_slow_path() {
  static constinit uint64_t last = 0;
  if (!slow_path_lock.try_lock()) return;
  const uint64_t now = os::now_ns();
  if (now - last >= tick_ns()) {
    last = now;
    look_around(false);
  }
  slow_path_lock.unlock();
}

// The child of a fork mostly runs another program soon, or does what only a process of one thread
// may: it gets no keeper before it has lived for a while.
constexpr uint64_t kChildhood = 1000 * kMillisecond;
constinit Atomic<uint64_t> forked_at{0};

void unattended() {
  if (get(options.decay_ms) == 0 || span::used_bytes() < kWorthwhile) return;
  uint32_t expected = attention::kNobody;
  const uint64_t forked = forked_at.load(memory_order_relaxed);
  const bool young = forked != 0 && os::now_ns() - forked < kChildhood;
  if (get(options.keeper) != 0 && !young &&
      state.compare_exchange_strong(expected, attention::kTicking, memory_order_relaxed)) {
    const os::Start start = thread.start("loft-keeper", run);
    if (start == os::Start::kStarted) return;
    state.store(start == os::Start::kRefused ? attention::kRefused : attention::kNobody,
                memory_order_relaxed);
  }
  if (state.load(memory_order_relaxed) != attention::kTicking) tick_on_a_slow_path();
}

// A keeper reads of the group as soon as it is there, which is soon enough for a soft limit. Nobody
// else may open files while the program runs: so here, where that would be too late, or never.
void look_at_group_now() {
  const uint64_t use = get(options.cgroup);
  const bool kept = get(options.keeper) != 0 && get(options.decay_ms) != 0 &&
                    state.load(memory_order_relaxed) != attention::kRefused;
  if (use == kGroupOff || (use == kGroupSoft && kept)) return;
  os::GroupReader reader;
  look_at_group(reader, false);
}

// Where nobody would tell our threads that the first one has ended, as in a process that has loaded
// loft by another thread, there are none.
void watch_first_thread() {
  if (!os::on_end_of_first_thread(leave)) leave();
}

// The keeper is not among the threads that a child has; the next slow path may start one there.
void in_child() {
  slow_path_lock.reset();
  thread.forget();
  forked_at.store(os::now_ns(), memory_order_relaxed);
  state.store(attention::kNobody, memory_order_relaxed);
  watch_first_thread();
  look_at_group_now();
}

}  // namespace

void enable() {
  os::on_fork(nullptr, nullptr, in_child);
  watch_first_thread();
  attention::unattended.store(unattended, memory_order_relaxed);
  look_at_group_now();
}

void options_changed() {
  look_at_group_now();
  // What was left behind objects before there was a hard limit counts as if it were not there.
  if (limits::hard() != limits::kNone) tails::give_back(0);
}

}  // namespace loft::keeper
