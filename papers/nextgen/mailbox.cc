// The room: its thread, the list of mailboxes that it goes round, and what a fork does to both.
#include "nextgen/mailbox.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <new>

#include "base/text.h"
#include "engine/settings.h"
#include "engine/spin_lock.h"
#include "os/own_thread.h"
#include "space/metadata.h"
#include "space/span.h"

namespace nextgen {

__thread Mailbox* own_box __attribute__((tls_model("initial-exec"), visibility("hidden"))) =
    nullptr;
Mailbox* served_box = nullptr;
std::atomic<int> threads{0};
int processors = 0;

namespace {

enum State : uint32_t { kTooEarly, kNone, kStarting, kOn, kRefused };
loft::Atomic<uint32_t> state{kTooEarly};
void room();
constinit loft::os::OwnThread thread("loft-nextgen", state, {kNone, kStarting, kRefused, kRefused},
                                     room);
std::atomic<Mailbox*> newest{nullptr};
std::atomic<unsigned long> served{0};
std::atomic<unsigned long> unserved{0};
pthread_key_t exit_key;

// The room itself, threads past their end, and a thread that forks.
__thread bool alone __attribute__((tls_model("initial-exec"))) = false;

// A fork asks the room to stand still, so that the child finds its allocator between two requests.
// Invariant: released <= asked <= released + 1, because fork_lock is held meanwhile.
constinit engine::SpinLock fork_lock;
std::atomic<unsigned> asked{0};     // the number of the last fork that began
std::atomic<unsigned> answered{0};  // of the last one for which the room stood still
std::atomic<unsigned> released{0};  // of the last one that is over
struct {
  Mailbox* box;
  bool alone;
} before_fork;  // the forking thread's; under fork_lock

// Values that cannot be are refused at the start. What the process may use can change later, and a
// processor that it has lost then is not asked for.
__attribute__((constructor(103))) void read_settings() {
  static constexpr const char* kWaits[] = {"spin", "yield", nullptr};
  const bool spins = engine::choice("NEXTGEN_WAIT", 0, kWaits) == 0;
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return;
  if (spins) processors = CPU_COUNT(&all);
  constexpr const char* kVariable = "NEXTGEN_CPU";
  constexpr const char* kWhat = "the number of a processor that the process may use";
  const char* const wanted = engine::variable_of(kVariable);
  if (wanted == nullptr) return;
  const size_t cpu = engine::setting(kVariable, 0, 0, CPU_SETSIZE - 1, kWhat);
  if (!CPU_ISSET(cpu, &all)) engine::refuse(kVariable, wanted, kWhat);
}

// The highest processor that the process may use, or NEXTGEN_CPU's.
void pin() {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2) return;
  size_t chosen = 0;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) chosen = cpu;
  }
  if (const char* wanted = engine::variable_of("NEXTGEN_CPU"); wanted != nullptr) {
    const size_t cpu = strtoul(wanted, nullptr, 10);
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &all)) chosen = cpu;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

void stand_still(unsigned fork) {
  // Release pairs with the acquire in prepare_fork: what the room did is in the child.
  answered.store(fork, std::memory_order_release);
  // Acquire pairs with the release in finish_fork.
  for (Spin spin; released.load(std::memory_order_acquire) != fork;) spin.wait();
}

// nextgen_malloc() of the listing, for any number of threads and for every function.
void room() {
  alone = true;
  pin();
  // Relaxed: in the parent the first room finds no fork over; in a child all are, and the thread's
  // creation orders that.
  unsigned over = released.load(std::memory_order_relaxed);
  // Sequentially consistent, with the load below and both accesses in prepare_fork: of a room that
  // starts and a thread that forks, at least one sees the other.
  state.store(kOn, std::memory_order_seq_cst);
  for (Spin spin;;) {
    if (const unsigned fork = asked.load(std::memory_order_seq_cst); LOFT_UNLIKELY(fork != over)) {
      stand_still(fork);
      over = fork;
    }
    bool idle = true;
    // Acquire pairs with the release in mailbox(): the box is constructed.
    for (Mailbox* box = newest.load(std::memory_order_acquire); box != nullptr; box = box->older) {
      // Acquire pairs with the release in post(): the request is written.
      if (!box->ready.load(std::memory_order_acquire)) continue;
      idle = false;
      served_box = box;
      box->block = box->work(box->first, box->second);
      // One writer: a plain sum.
      served.store(served.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      // Release pairs with the acquires in ask() and post(): the answer is written, and the
      // request read.
      box->done.store(true, std::memory_order_release);
      box->ready.store(false, std::memory_order_release);
    }
    if (idle) spin.wait();
  }
}

Mailbox* mailbox() {
  // A child of a fork keeps its own.
  if (void* mine = pthread_getspecific(exit_key); mine != nullptr) {
    return own_box = static_cast<Mailbox*>(mine);
  }
  // Acquire pairs with the release below: the boxes are constructed.
  Mailbox* box = newest.load(std::memory_order_acquire);
  for (; box != nullptr; box = box->older) {
    bool owned = false;
    // Acquire pairs with the release in on_exit: the last owner has done with it.
    if (box->owned.compare_exchange_strong(owned, true, std::memory_order_acquire)) break;
  }
  if (box == nullptr) {
    void* memory = loft::metadata::allocate(sizeof(Mailbox));
    if (memory == nullptr) return nullptr;
    box = new (memory) Mailbox;
    // Relaxed: the exchange that succeeds is a release of the box, and of the boxes behind it.
    box->older = newest.load(std::memory_order_relaxed);
    while (!newest.compare_exchange_weak(box->older, box, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
  }
  own_box = box;  // before the call below, which may allocate
  threads.fetch_add(1, std::memory_order_relaxed);
  pthread_setspecific(exit_key, box);
  return box;
}

void on_exit(void* value) {
  auto* box = static_cast<Mailbox*>(value);
  wait_until_taken(box);
  alone = true;  // before the mailbox goes to the next thread
  threads.fetch_sub(1, std::memory_order_relaxed);
  own_box = nullptr;
  // Release pairs with the acquire in mailbox().
  box->owned.store(false, std::memory_order_release);
}

// --- fork: the child has no room until its first call starts one. loft's own handlers run inside
// these. Between the two, the forking thread serves itself.

void prepare_fork() {
  if (own_box != nullptr) wait_until_taken(own_box);  // a free that is on its way
  fork_lock.lock();
  before_fork = {own_box, alone};
  own_box = nullptr;
  alone = true;
  // Only the holder of the lock writes it. Sequentially consistent, like the next load: room().
  const unsigned fork = asked.load(std::memory_order_relaxed) + 1;
  asked.store(fork, std::memory_order_seq_cst);
  if (state.load(std::memory_order_seq_cst) != kOn) return;
  // Acquire pairs with the release in stand_still.
  for (Spin spin; answered.load(std::memory_order_acquire) != fork;) spin.wait();
}

// Release pairs with the acquire in stand_still.
void let_go() { released.store(asked.load(std::memory_order_relaxed), std::memory_order_release); }

void in_parent() {
  own_box = before_fork.box;
  alone = before_fork.alone;
  let_go();
  fork_lock.unlock();
}

// Relaxed throughout: the child has no other thread yet.
void in_child() {
  // Not own_box: a child that has not called since its own fork has none.
  const void* const mine = pthread_getspecific(exit_key);
  for (Mailbox* box = newest.load(std::memory_order_relaxed); box != nullptr; box = box->older) {
    if (box == mine) continue;
    // What dead threads had asked for is not done in the child.
    box->ready.store(false, std::memory_order_relaxed);
    box->owned.store(false, std::memory_order_relaxed);
  }
  alone = before_fork.alone;  // own_box is none until there is a room
  threads.store(mine != nullptr, std::memory_order_relaxed);
  let_go();
  fork_lock.reset();
  thread.forget();
}

// After the constructors of loft (101 and 102): these handlers then surround its own.
__attribute__((constructor(103))) void open_the_room() {
  if (pthread_key_create(&exit_key, on_exit) != 0) return;
  pthread_atfork(prepare_fork, in_parent, in_child);
  // Relaxed: the room does not run, and start() orders what it needs.
  state.store(kNone, std::memory_order_relaxed);
}

// PAPER_COUNTS=1: a line of JSON at the end, as other engines have.
__attribute__((destructor(101))) void end() {
  const char* const wanted = engine::variable_of("PAPER_COUNTS");
  if (wanted == nullptr || *wanted != '1') return;
  loft::Text line;
  line << "{\"served\": " << loft_nextgen_served() << ", \"unserved\": " << loft_nextgen_unserved()
       << "}\n";
  loft::os::write_error(line.data(), line.size());
}

}  // namespace

LOFT_NOINLINE Mailbox* mailbox_or_start() {
  // Relaxed: a thread that sees an old state serves itself once more. Who starts the room waits for
  // it: a short program would otherwise end before the room has begun.
  if (state.load(std::memory_order_relaxed) == kNone && thread.start([] { return true; })) {
    while (state.load(std::memory_order_relaxed) == kStarting) sched_yield();
  }
  // Acquire pairs with the store in room().
  const bool on = state.load(std::memory_order_acquire) == kOn;
  Mailbox* const box = on && !alone && loft::span::initialise() ? mailbox() : nullptr;
  if (box == nullptr) count_unserved();
  return box;
}

// Relaxed: a count.
void count_unserved() { unserved.fetch_add(1, std::memory_order_relaxed); }

}  // namespace nextgen

unsigned long loft_nextgen_served() noexcept {
  return nextgen::served.load(std::memory_order_relaxed);
}
unsigned long loft_nextgen_unserved() noexcept {
  return nextgen::unserved.load(std::memory_order_relaxed);
}
