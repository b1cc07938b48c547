#include "simulation/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <queue>
#include <semaphore>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulation/places.h"

// Saves what a call keeps, and the stack pointer to *from; goes on with another stack and thread
// pointer, as they were saved. One thread of the system runs all processors: a switch between
// threads of its own takes a hundred times as long. `fs` is what thread-local storage is found by.
extern "C" void machine_switch(void** from, void* to, void* thread_pointer);
asm(R"(
  .text
  .type machine_switch, @function
machine_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  wrfsbase %rdx
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

namespace machine {

Tally tally;

namespace {

constexpr unsigned kLineLog = 6;
constexpr size_t kPageLines = 64;
constexpr size_t kRecent = 1 << 16;
constexpr size_t kStackBytes = 256 * 1024;

struct Processor {
  void* stack = nullptr;
  void* thread_pointer = nullptr;
  unsigned index = 0;
  bool inside = false;
  uint64_t clock = 0;
  uintptr_t spun_on = 0;  // the line of the last atomic operation
};

// Who has a copy: a few by number, more in a set. Small, for there is one for each line in use.
struct Line {
  static constexpr unsigned kFew = 3;

  uint16_t holders = 0;
  std::array<uint16_t, kFew> few{};  // until there are more
  std::unique_ptr<std::bitset<kMostProcessors>> all;

  bool is_held_by(unsigned processor) const {
    if (holders > kFew) return all->test(processor);
    return std::find(few.begin(), few.begin() + holders, processor) != few.begin() + holders;
  }
  void give_to(unsigned processor) {
    holders = 1;
    few[0] = static_cast<uint16_t>(processor);
  }
  void add(unsigned processor) {
    if (holders < kFew) {
      few[holders] = static_cast<uint16_t>(processor);
    } else {
      if (holders == kFew) {
        all = std::make_unique<std::bitset<kMostProcessors>>();
        for (const unsigned each : few) all->set(each);
      }
      all->set(processor);
    }
    ++holders;
  }
};

using Page = std::array<Line, kPageLines>;
using Turn = std::pair<uint64_t, unsigned>;  // clock and index

struct Machine {
  explicit Machine(unsigned count) : processors(count) {}

  std::vector<Processor> processors;
  unsigned running = 0;  // have not ended
  Processor* now = nullptr;
  Processor outside;  // the caller of `run`
  const std::function<void(unsigned)>* body = nullptr;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready;
  std::unordered_map<const void*, std::deque<Processor*>> asleep;
  std::unordered_map<uintptr_t, std::vector<Processor*>> spinning;  // by line
  std::unordered_map<uintptr_t, Page> pages;
  std::vector<std::pair<uintptr_t, Page*>> recent{kRecent};  // by the last bits of the page

  Line& line(uintptr_t number) {
    const uintptr_t page = number / kPageLines;
    auto& [known, lines] = recent[page % kRecent];
    if (known != page) {
      known = page;
      lines = &pages[page];
    }
    return (*lines)[number % kPageLines];
  }
};

Machine* here = nullptr;
// The tables of the simulation itself use memset, which is counted: not theirs.
bool recording = false;

Processor& me() { return *here->now; }

void make_ready(Processor& processor) { here->ready.emplace(processor.clock, processor.index); }

void resume(Processor& next) {
  Processor& last = *std::exchange(here->now, &next);
  if (&last != &next) machine_switch(&last.stack, next.stack, next.thread_pointer);
}

// Those who spin on the line look again, not before what they look at was written.
void end_spins(uintptr_t number) {
  const auto found = here->spinning.find(number);
  if (found == here->spinning.end()) return;
  for (Processor* each : found->second) {
    each->clock = std::max(each->clock, me().clock);
    make_ready(*each);
  }
  here->spinning.erase(found);
}

// Where all others wait, a spin is the one thing that goes on.
bool end_a_spin() {
  const auto least = std::min_element(
      here->spinning.begin(), here->spinning.end(),
      [](const auto& a, const auto& b) { return a.second[0]->index < b.second[0]->index; });
  if (least == here->spinning.end()) return false;
  end_spins(least->first);
  return true;
}

void next_turn() {
  if (here->running == 0) return resume(here->outside);
  if (here->ready.empty() && !end_a_spin()) {
    std::fputs("simulation: every processor waits\n", stderr);
    std::abort();
  }
  const unsigned next = here->ready.top().second;
  here->ready.pop();
  resume(here->processors[next]);
}

// Until another processor makes this one ready.
void wait() {
  const uint64_t before = me().clock;
  next_turn();
  if (!places::noting || !me().inside) return;
  recording = true;
  places::note(me().clock - before, 0);
  recording = false;
}

void begin() {
  (*here->body)(me().index);
  --here->running;
  next_turn();
}

// A stack on which machine_switch goes on with `begin`, aligned as after a call.
void* new_stack(void* memory) {
  auto* const top = reinterpret_cast<void**>(static_cast<char*>(memory) + kStackBytes);
  top[-2] = reinterpret_cast<void*>(&begin);
  return top - 8;  // six saved registers and the two words above
}

// Whether the line had to move.
bool visit(uintptr_t number, bool writes) {
  Line& line = here->line(number);
  Processor& self = me();
  const bool held = line.is_held_by(self.index);
  const bool misses = !held || (writes && line.holders > 1);
  if (misses) ++(line.holders == 0 ? tally.fetches : tally.moves);
  if (misses && places::noting && self.inside) places::note(kMiss, number);
  if (writes) {
    line.give_to(self.index);
  } else if (!held) {
    line.add(self.index);
  }
  return misses;
}

uintptr_t line_of(const volatile void* at) { return reinterpret_cast<uintptr_t>(at) >> kLineLog; }
uintptr_t last_line_of(const volatile void* at, size_t bytes) {
  return line_of(static_cast<const volatile char*>(at) + bytes - 1);
}

}  // namespace

void run(unsigned processors, const std::function<void(unsigned)>& body) {
  Machine machine(processors);
  here = &machine;
  machine.body = &body;
  machine.running = processors;
  machine.now = &machine.outside;
  machine.outside.thread_pointer = __builtin_thread_pointer();
  const size_t all_stacks = processors * kStackBytes;
  void* const stacks = mmap(nullptr, all_stacks, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) std::abort();
  // These lend their thread-local storage, and wait meanwhile.
  std::vector<std::thread> threads;
  std::counting_semaphore<> lent{0};
  std::deque<std::binary_semaphore> ends;
  for (unsigned i = 0; i < processors; ++i) {
    Processor& each = machine.processors[i];
    each.index = i;
    each.stack = new_stack(static_cast<char*>(stacks) + i * kStackBytes);
    std::binary_semaphore& end = ends.emplace_back(0);
    threads.emplace_back([&each, &lent, &end] {
      each.thread_pointer = __builtin_thread_pointer();
      lent.release();
      end.acquire();
    });
    lent.acquire();
    make_ready(each);
  }
  next_turn();
  here = nullptr;
  for (unsigned i = 0; i < processors; ++i) {
    ends[i].release();
    threads[i].join();
  }
  munmap(stacks, all_stacks);
}

unsigned processors() { return static_cast<unsigned>(here->processors.size()); }
bool is_inside() { return here != nullptr && me().inside && !recording; }
unsigned processor() { return me().index; }
uint64_t clock() { return me().clock; }

Inside::Inside() { me().inside = true; }
Inside::~Inside() { me().inside = false; }

void access(const volatile void* at, size_t bytes, bool writes) {
  if (bytes == 0) return;
  recording = true;
  ++tally.accesses;
  ++me().clock;
  const uintptr_t last = last_line_of(at, bytes);
  bool misses = false;
  for (uintptr_t number = line_of(at); number <= last; ++number) misses |= visit(number, writes);
  if (misses) me().clock += kMiss;
  if (writes && !here->spinning.empty()) {
    for (uintptr_t number = line_of(at); number <= last; ++number) end_spins(number);
  }
  recording = false;
}

void advance(uint64_t cycles) { me().clock += cycles; }

void let_others() {
  if (here->ready.empty() || here->ready.top() > Turn{me().clock, me().index}) return;
  make_ready(me());
  next_turn();
}

void note_atomic(const volatile void* at) { me().spun_on = line_of(at); }

void spin() {
  me().clock += kPause;
  here->spinning[me().spun_on].push_back(&me());
  wait();
}

void sleep(const void* on) {
  here->asleep[on].push_back(&me());
  wait();
}

void wake_one(const void* on, uint64_t cycles) {
  std::deque<Processor*>& queue = here->asleep[on];
  if (queue.empty()) return;
  Processor& first = *queue.front();
  queue.pop_front();
  first.clock = std::max(first.clock, me().clock) + cycles;
  make_ready(first);
}

void wake_all(const void* on) {
  while (!here->asleep[on].empty()) wake_one(on, 0);
}

void hold(const void* at, size_t bytes) {
  const uintptr_t last = last_line_of(at, bytes);
  for (uintptr_t number = line_of(at); number <= last; ++number) {
    here->line(number).give_to(me().index);
  }
}

}  // namespace machine
