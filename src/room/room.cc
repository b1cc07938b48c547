#include "room/room.h"

#include "base/options.h"
#include "cache/census.h"
#include "heap/registry.h"
#include "limits/limits.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "room/magazines.h"

namespace loft::room {

namespace {

// Refills of the program before the room's thread starts. A program with fewer refills ends before
// trials have found where the room pays.
constexpr size_t kWorthwhileRefills = 1024;

// How long the thread spins for the next call before it sleeps. Waking it costs a thread of the
// program some microseconds. If refills are rarer than this, the spin keeps no processor busy.
constexpr uint64_t kSpinNs = 50'000;
constexpr unsigned kLooksEach = 64;  // between two looks at the clock

// Time without a call after which the thread ends. A process ends with its last thread, and the
// room's must not be the last one for long. A later refill may start another.
constexpr uint64_t kIdleNs = 2'000'000'000;

// The processors that the process could use at load. The program may later tie its threads to
// single processors, and among them the thread that starts the room.
constinit os::ProcessorSet processors;

constinit Atomic<int> number{0};  // the system's number of the room's thread; 0 without one

bool called_within_spin() {
  const uint64_t from = os::now_ns();
  do {
    for (unsigned i = 0; i < kLooksEach; ++i) {
      if (magazines::anybody_calls()) return true;
      os::pause_briefly();
    }
  } while (os::now_ns() - from < kSpinNs);
  return false;
}

// False after kIdleNs without a call: the state is kNobody then.
bool sleep() {
  uint32_t expected = kAwake;
  if (!state.compare_exchange_strong(expected, kAsleep, memory_order_relaxed)) return true;
  // Pairs with the fence in wake: if a thread did not see kAsleep, the look below sees its call.
  // seq_cst, because nothing weaker orders the store before the load.
  thread_fence(memory_order_seq_cst);
  if (magazines::anybody_calls()) wake();
  const uint64_t from = os::now_ns();
  while (state.load(memory_order_relaxed) == kAsleep) {
    os::wait_on_word_for(&state, kAsleep, kIdleNs);
    expected = kAsleep;
    if (os::now_ns() - from >= kIdleNs &&
        state.compare_exchange_strong(expected, kNobody, memory_order_relaxed)) {
      return false;
    }
  }
  return true;
}

bool is_told_to_leave() {
  const uint32_t now = state.load(memory_order_relaxed);
  return now == kRefused || now == kLeaving;
}

void choose_processor() {
  number.store(os::thread_number(), memory_order_relaxed);
  const uint64_t wanted = get(options.room_cpu);
  if (wanted != kAnyProcessor) {
    if (os::run_on(wanted)) return;
    os::report(Text() << "room_cpu=" << wanted << ": the room cannot run there, and runs anywhere");
  }
  // Only if the set differs: in a program that ties no thread, a filter of system calls may forbid
  // this.
  os::ProcessorSet now;
  now.read();
  if (!(now == processors)) processors.apply();
}

// Returns (a) when told to leave, after it has answered every earlier call; or (b) after a long
// time without a call. A call made in between is left to the next thread: the caller serves itself.
void run() {
  census::do_without_block();
  choose_processor();
  Heap* const heap = registry::common_heap();
  for (bool leaves = false; !leaves;) {
    leaves = is_told_to_leave();
    for (Magazines* caller = magazines::take_calls(); caller != nullptr;) {
      caller = magazines::serve(heap, caller);
    }
    if (!leaves && !called_within_spin() && !sleep()) break;
  }
  number.store(0, memory_order_relaxed);
}

constinit os::OwnThread thread("loft-room", state, {kNobody, kAwake, kLeaving, kRefused}, run);

// The room does not run beside a single thread: credentials, namespaces and filters that the
// program sets for its one thread would not apply to the room's.
bool may_run() { return get(options.background) != 0 || census::has_other_threads(); }

void refuse() {
  uint32_t expected = kNobody;
  if (!state.compare_exchange_strong(expected, kRefused, memory_order_relaxed)) return;
  os::report(Text() << "owner=room: there is one processor, so the room stays empty; threads "
                       "serve themselves");
}

void in_child() {
  number.store(0, memory_order_relaxed);
  thread.forget();
}

}  // namespace

void enable() {
  if (get(options.owner) != kOwnerRoom) return;
  os::on_fork(nullptr, nullptr, in_child);
  processors.read();
  state.store(kNobody, memory_order_relaxed);
}

void start() {
  const Heap* heap = registry::common_heap();
  if (heap == nullptr || heap->counters().refills.get() < kWorthwhileRefills) return;
  if (!may_run()) return;
  if (processors.count() == 1 || limits::totals().processors == 1) return refuse();
  // The state is kAwake at once: the thread answers calls from before it runs.
  thread.start(may_run);
}

void leave() {
  const uint32_t now = state.load(memory_order_relaxed);
  if (now == kNoRoom || now == kRefused) return;
  thread.end();
  number.store(0, memory_order_relaxed);
}

void pause() {
  if (!may_run()) thread.stop();
}

unsigned long long time_ns() {
  const int room = number.load(memory_order_relaxed);
  return room == 0 ? 0 : os::thread_time_ns(room);
}

}  // namespace loft::room
