#include "keeper/room.h"

#include "base/options.h"
#include "cache/lifecycle.h"
#include "cache/magazines.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "space/limits.h"

namespace loft::room {

namespace {

// Refills before a thread is started for the program. One of fewer ends before trials have found
// out for what the room pays.
constexpr unsigned long kWorthwhileRefills = 1024;

// How long it waits for the next call before it sleeps. Waking it costs a thread of the program
// some microseconds; a program that refills less often than this does not keep a processor busy.
constexpr uint64_t kSpinNs = 50'000;
constexpr unsigned kLooksEach = 64;  // between two looks at the clock

// The child of a fork mostly runs another program soon: it gets no room before it has lived for a
// while, as with the keeper.
constexpr uint64_t kChildhoodNs = 1'000'000'000;
constinit Atomic<uint64_t> forked_at{0};

// Where the process could run when it began: a program may tie its threads to single processors
// later, the one that starts the room among them.
constinit os::ProcessorSet processors;

constinit Atomic<int> number{0};  // the system's, of the room's thread; 0 without one

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

void sleep() {
  uint32_t expected = kAwake;
  if (!state.compare_exchange_strong(expected, kAsleep, memory_order_relaxed)) return;
  // Pairs with the fence in wake: a thread that did not see this has called before our look.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (magazines::anybody_calls()) wake();
  while (state.load(memory_order_relaxed) == kAsleep) os::wait_on_word(&state, kAsleep);
}

void settle_down() {
  number.store(os::thread_number(), memory_order_relaxed);
  const uint64_t wanted = get(options.keeper_cpu);
  if (wanted == kAnyProcessor) {
    processors.apply();
  } else if (!os::run_on(wanted)) {
    os::report(Text() << "keeper_cpu=" << wanted
                      << ": the room cannot run there, and runs anywhere");
    processors.apply();
  }
}

// Returns when it is told to leave, with every call answered that came before.
void run() {
  settle_down();
  Heap* const heap = lifecycle::room_heap();
  for (bool leaves = false; !leaves;) {
    leaves = state.load(memory_order_relaxed) == kRefused;
    for (Magazines* caller = magazines::take_calls(); caller != nullptr;) {
      caller = magazines::serve(heap, caller);
    }
    if (!leaves && !called_within_spin()) sleep();
  }
}

constinit os::OwnThread thread;

bool has_a_processor() {
  if (processors.count() != 1 && limits::totals().processors != 1) return true;
  os::report(Text() << "owner=keeper: there is one processor, so the room stays empty; threads "
                       "serve themselves");
  return false;
}

void start_one() {
  const Heap* heap = lifecycle::room_heap();
  if (heap == nullptr || heap->counters().refills.get() < kWorthwhileRefills) return;
  const uint64_t forked = forked_at.load(memory_order_relaxed);
  if (forked != 0 && os::now_ns() - forked < kChildhoodNs) return;
  uint32_t expected = kNobody;
  // Awake already: who calls before the thread runs, is heard when it does.
  if (!state.compare_exchange_strong(expected, kAwake, memory_order_relaxed)) return;
  os::Start started = os::Start::kRefused;
  if (has_a_processor()) started = thread.start("loft-room", run);
  if (started == os::Start::kStarted) return;
  state.store(started == os::Start::kRefused ? kRefused : kNobody, memory_order_relaxed);
}

void in_child() {
  number.store(0, memory_order_relaxed);
  forked_at.store(os::now_ns(), memory_order_relaxed);
  // One that was refused is refused here, too.
  if (thread.forget() || state.load(memory_order_relaxed) != kRefused) {
    state.store(kNobody, memory_order_relaxed);
  }
}

}  // namespace

void enable() {
  if (get(options.owner) != kOwnerKeeper) return;
  os::on_fork(nullptr, nullptr, in_child);
  processors.read();
  start.store(start_one, memory_order_relaxed);
  state.store(kNobody, memory_order_relaxed);
}

void leave() {
  const uint32_t now = state.load(memory_order_relaxed);
  if (now == kNoRoom || now == kRefused) return;
  thread.end(state, kRefused);
  number.store(0, memory_order_relaxed);
}

unsigned long long time_ns() {
  const int room = number.load(memory_order_relaxed);
  return room == 0 ? 0 : os::thread_time_ns(room);
}

}  // namespace loft::room
