#include "purge/background.h"

#include "arena/user_heap.h"
#include "base/bits.h"
#include "base/options.h"
#include "cache/census.h"
#include "cpu/core.h"
#include "hard/scan.h"
#include "heap/registry.h"
#include "limits/limits.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "room/room.h"
#include "space/span.h"
#include "thread/idle.h"
#include "thread/lifecycle.h"

namespace loft::background {

constinit Atomic<uint32_t> state{kNotYet};
constinit Atomic<void (*)()> at_slow_path{nullptr};
constinit Atomic<void (*)()> at_end_of_first_thread{nullptr};

namespace {

void call(const Atomic<void (*)()>& hook) {
  if (auto* function = hook.load(memory_order_relaxed); function != nullptr) function();
}

constexpr uint64_t kMillisecond = 1'000'000;

// A program that never grows beyond this has little to purge, and starting a thread would be a good
// part of its cost.
constexpr size_t kWorthwhile = size_t{8} << 20;

// The interval at which the group is read, and so the longest wait of a background thread.
constexpr uint64_t kWatch = 1000 * kMillisecond;

// Where memory is tight, spans are purged after a fifth of decay_ms without use, or after half a
// second if that is less.
uint64_t tick_ns() {
  constexpr uint64_t kLongest = 1000'000'000;  // some days, for users who mean never
  const uint64_t decay = least<uint64_t>(get(options.decay_ms), kLongest);
  if (decay == 0) return kWatch;
  const uint64_t tick = decay / span::kDecayTicks;
  return most<uint64_t>(limits::tight() ? least<uint64_t>(tick / 5, 100) : tick, 10) * kMillisecond;
}

// `again`: another read follows soon. Without one, the usage is left out, because the usage of one
// moment would be taken as current for ever.
void look_at_group(limits::GroupReader& reader, bool again) {
  limits::Group group = reader.read(limits::group());
  if (!again) group.used = 0;
  limits::set_group(group);
}

// Purges up to `wanted` bytes of free spans. True if any were purged.
bool purge(size_t wanted) {
  const size_t before = wanted;
  while (wanted != 0) {
    const size_t purged = span::purge_step(wanted);
    if (purged == 0) break;
    wanted -= least(wanted, purged);
  }
  return wanted != before;
}

// One tick. True if nothing is left to watch.
bool look_around() {
  const size_t dirty_before = span::totals().dirty;
  const bool all_idle = idle::look();
  const bool common_is_purged = idle::purge_common();
  const bool cores_are_idle = core::look();
  const bool parked_are_purged = registry::purge_parked();
  const bool users_are_purged = UserHeap::purge_idle_of_all();
  const size_t dirty = span::totals().dirty;
  // Spans that idle heaps have just freed were unused for long enough.
  const size_t just_freed = dirty > dirty_before ? dirty - dirty_before : 0;
  const size_t idle = span::idle_bytes();
  const bool purged = purge(least(idle + just_freed, dirty));
  // Spans that the system refuses to take back are no reason to go on.
  return all_idle && common_is_purged && cores_are_idle && parked_are_purged && users_are_purged &&
         !purged && idle == span::totals().dirty;
}

// Whether a background thread may run. By default, only in a program that has started threads. In a
// process of one thread, (a) the credentials, namespaces and filters that the program sets for its
// thread would not hold for ours; (b) some calls refuse a process with a second thread, or warn
// about it.
bool may_run() {
  if (get(options.decay_ms) == 0) return false;
  const uint64_t background = get(options.background);
  return background == kBackgroundOn ||
         (background == kBackgroundAuto && census::has_other_threads());
}

// Ends the background thread; a later slow path starts another. The second look finds most of what
// threads left behind while they still saw a background thread. The rest waits for the next slow
// path. False if the background thread must go on, because this look found something and a
// background thread may run.
bool may_end() {
  uint32_t expected = kTicking;
  if (!state.compare_exchange_strong(expected, kNobody, memory_order_relaxed)) {
    return true;
  }
  if (look_around() || !may_run()) return true;
  // Fails if a thread waits for the background thread's end by now: the last other thread of the
  // program.
  expected = kNobody;
  return !state.compare_exchange_strong(expected, kTicking, memory_order_relaxed);
}

void watch() {
  const bool sees_group = get(options.watch_group) != 0 && os::leave_files();
  limits::GroupReader group;
  uint64_t watched = 0;
  uint64_t ticked = os::now_ns();
  for (;;) {
    if (sees_group && get(options.cgroup) != kGroupOff && os::now_ns() - watched >= kWatch) {
      watched = os::now_ns();
      look_at_group(group, true);
    }
    // A program that changed `cgroup` while the group was read may have published first. This
    // publishes what holds now.
    if (sees_group) limits::options_changed();
    os::wait_on_word_for(&state, kTicking, least(tick_ns(), kWatch));
    if (state.load(memory_order_relaxed) != kTicking) return;
    const uint64_t now = os::now_ns();
    if (now - ticked < tick_ns()) continue;
    ticked = now;
    const bool all_scanned = hard::scan(hard::kScanBytes);
    const bool is_done = look_around() && all_scanned && !sees_group;
    if ((is_done || !may_run()) && may_end()) return;
  }
}

// Returns when the background thread is told to leave, or when nothing is left to do.
void run() {
  census::do_without_block();
  limits::set_attended(true);
  hard::restart_scan();
  watch();
  limits::set_attended(false);
}

constinit os::OwnThread thread(state, {kNobody, kTicking, kLeaving, kRefused}, run);

// The process's first thread ends by itself while others go on. From now on, loft has no threads.
void leave() {
  call(at_end_of_first_thread);
  room::leave();
  thread.end();
}

constinit os::Lock slow_path_lock;

// Whether the heap has ever been that large, as far as slow paths saw.
bool was_worthwhile() {
  static constinit Atomic<bool> was{false};  // relaxed: a hint
  if (was.load(memory_order_relaxed)) return true;
  if (LOFT_LIKELY(span::counted() < kWorthwhile)) return false;
  was.store(true, memory_order_relaxed);
  return true;
}

// Relaxed: written under the lock above; who reads it without the lock looks again.
constinit Atomic<uint64_t> last_tick{0};

bool is_due(uint64_t now) { return now >= last_tick.load(memory_order_relaxed) + tick_ns(); }

// A process ends with its last thread, which must not be ours. The background thread ends before
// the program's last other thread does. After that the program runs as a process of one thread.
void on_thread_end() {
  room::pause();
  if (!may_run()) thread.stop();
  look_after();
}

// Opens files before the program runs. None are opened after that, unless the program asks for it.
void look_at_group_now() {
  if (get(options.cgroup) == kGroupOff) return;
  limits::GroupReader reader;
  look_at_group(reader, false);
}

// Loft starts no threads if the end of the first thread cannot be observed. That is so if another
// thread has loaded loft.
void watch_first_thread(bool is_first) {
  if (!os::on_end_of_first_thread(leave, is_first)) leave();
}

// A fork's child has no background thread.
void in_child() {
  slow_path_lock.reset();
  thread.forget();
  hard::forget_scan();
  limits::set_attended(false);
  watch_first_thread(true);
}

}  // namespace

void unattended() {
  call(at_slow_path);
  if (get(options.decay_ms) == 0 || !was_worthwhile()) return;
  if (may_run() && thread.start(may_run)) return;
  // Without the lock, which all threads would write, for the many calls between two ticks.
  const uint64_t now = os::now_ns();
  if (!is_due(now) || !slow_path_lock.try_lock()) return;
  if (is_due(now)) {
    last_tick.store(now, memory_order_relaxed);
    look_around();
  }
  slow_path_lock.unlock();
}

void enable() {
  os::on_fork(nullptr, nullptr, in_child);
  // First: it may find that loft can have no threads. The state is kRefused then, and stays.
  watch_first_thread(false);
  uint32_t expected = kNotYet;
  state.compare_exchange_strong(expected, kNobody, memory_order_relaxed);
  lifecycle::at_thread_end.store(on_thread_end, memory_order_relaxed);
  look_at_group_now();
  limits::set_address_space(os::address_space_limit());
}

}  // namespace loft::background
