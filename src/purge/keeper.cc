#include "purge/keeper.h"

#include "arena/user_heap.h"
#include "base/bits.h"
#include "base/options.h"
#include "cache/census.h"
#include "cache/large_transfer.h"
#include "cpu/core.h"
#include "heap/registry.h"
#include "large/tails.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "room/room.h"
#include "space/limits.h"
#include "space/span.h"
#include "thread/attention.h"
#include "thread/idle.h"
#include "thread/lifecycle.h"

namespace loft::keeper {

namespace {

using attention::state;

constexpr uint64_t kMillisecond = 1'000'000;

// A program that never grows beyond this has not much to give back, and starting a thread would be
// a good part of what it costs.
constexpr size_t kWorthwhile = size_t{8} << 20;

// How often the group is looked at, and so the longest that a keeper waits.
constexpr uint64_t kWatch = 1000 * kMillisecond;

// Where memory is tight, what nobody needed for a fifth of the time goes, or for half a second.
uint64_t tick_ns() {
  constexpr uint64_t kLongest = 1000'000'000;  // some days, for whoever says never
  const uint64_t decay = least<uint64_t>(get(options.decay_ms), kLongest);
  if (decay == 0) return kWatch;
  const uint64_t tick = decay / span::kDecayTicks;
  return most<uint64_t>(limits::tight() ? least<uint64_t>(tick / 5, 100) : tick, 10) * kMillisecond;
}

// `again`: it is looked at again soon. What is used at one moment would otherwise be believed for
// ever.
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

// One tick. True if nothing is left to watch.
bool look_around() {
  const bool none_passing = large_transfer::release_idle();
  const size_t dirty_before = span::totals().dirty;
  const bool all_idle = idle::look();
  const bool room_rests = idle::rest_room();
  const bool cores_rest = core::look();
  const bool parked_rest = registry::rest_parked();
  const bool users_rest = UserHeap::rest_all();
  tails::give_back(limits::hard() == limits::kNone ? span::kDecayTicks : 1);
  const size_t dirty = span::totals().dirty;
  // What idle heaps let go of has waited long enough.
  const size_t let_go = dirty > dirty_before ? dirty - dirty_before : 0;
  const size_t idle = span::idle_bytes();
  const bool gave = purge(least(idle + let_go, dirty));
  // What the system does not take back is no reason to go on.
  return all_idle && room_rests && cores_rest && parked_rest && users_rest && none_passing &&
         tails::none() && !gave && idle == span::totals().dirty;
}

// Whether a thread may be there. In a program that has started none, what the program asks of the
// system for its one thread would not hold for ours: credentials, namespaces, filters; and some
// calls refuse, or warn of, a process with more than one.
bool may_run() {
  if (get(options.decay_ms) == 0) return false;
  const uint64_t background = get(options.background);
  return background == kBackgroundOn ||
         (background == kBackgroundAuto && census::has_other_threads());
}

// The keeper ends, and a later slow path starts another. The second look finds most of what threads
// left behind while they still saw a keeper; the rest waits for the next slow path. False if it is
// not to end: it has found something, and may go on.
bool may_end() {
  uint32_t expected = attention::kTicking;
  if (!state.compare_exchange_strong(expected, attention::kNobody, memory_order_relaxed)) {
    return true;
  }
  if (look_around() || !may_run()) return true;
  // Fails where somebody waits for the end meanwhile: the last other thread of the program.
  expected = attention::kNobody;
  return !state.compare_exchange_strong(expected, attention::kTicking, memory_order_relaxed);
}

void watch() {
  const bool sees_group = get(options.watch_group) != 0 && os::leave_files();
  os::GroupReader group;
  uint64_t watched = 0;
  uint64_t ticked = os::now_ns();
  for (;;) {
    if (sees_group && get(options.cgroup) != kGroupOff && os::now_ns() - watched >= kWatch) {
      watched = os::now_ns();
      look_at_group(group, true);
    }
    os::wait_on_word_for(&state, attention::kTicking, least(tick_ns(), kWatch));
    if (state.load(memory_order_relaxed) != attention::kTicking) return;
    const uint64_t now = os::now_ns();
    if (now - ticked < tick_ns()) continue;
    ticked = now;
    const bool rests = look_around() && !sees_group;
    if ((rests || !may_run()) && may_end()) return;
  }
}

// Returns when it is told to leave, or nothing is left to do.
void run() {
  census::do_without_block();
  limits::set_attended(true);
  watch();
  limits::set_attended(false);
}

constinit os::OwnThread thread(state,
                               {attention::kNobody, attention::kTicking, attention::kLeaving,
                                attention::kRefused},
                               run);

// The first thread ends by itself, and others go on: from now on they do without.
void leave() {
  room::leave();
  thread.end();
}

constinit os::Lock slow_path_lock;

// Under the lock: whether it is time for the next tick.
bool is_due() {
  static constinit uint64_t last = 0;
  const uint64_t now = os::now_ns();
  if (now - last < tick_ns()) return false;
  last = now;
  return true;
}

// Without a keeper: a start, or at most one tick at a time, by whoever comes first.
void unattended() {
  if (get(options.decay_ms) == 0 || span::used_bytes() < kWorthwhile) return;
  if (may_run() && thread.start(may_run)) return;
  if (!slow_path_lock.try_lock()) return;
  if (is_due()) look_around();
  slow_path_lock.unlock();
}

// A process ends with its last thread: ours must not be that. It is gone before the program's last
// other thread is, so that what the program does then it does as a process of one thread.
void on_thread_end() {
  room::pause();
  if (!may_run()) thread.stop();
  attention::look_after();
}

// Files are opened before the program runs, and never after that, unless it asks for it.
void look_at_group_now() {
  if (get(options.cgroup) == kGroupOff) return;
  os::GroupReader reader;
  look_at_group(reader, false);
}

// Where nobody would tell our threads that the first one has ended, as in a process that has loaded
// loft by another thread, there are none.
void watch_first_thread(bool is_first) {
  if (!os::on_end_of_first_thread(leave, is_first)) leave();
}

// The keeper is not among the threads that a child has.
void in_child() {
  slow_path_lock.reset();
  thread.forget();
  limits::set_attended(false);
  watch_first_thread(true);
}

}  // namespace

void enable() {
  os::on_fork(nullptr, nullptr, in_child);
  watch_first_thread(false);
  attention::unattended.store(unattended, memory_order_relaxed);
  attention::on_thread_end.store(on_thread_end, memory_order_relaxed);
  look_at_group_now();
  limits::set_address_space(os::address_space_limit());
}

void options_changed() {
  // What was left behind objects before there was a hard limit counts as if it were not there.
  if (limits::hard() != limits::kNone) tails::give_back(0);
}

}  // namespace loft::keeper
