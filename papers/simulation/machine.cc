#include "simulation/machine.h"

#include <semaphore.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <memory>
#include <queue>
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
constexpr unsigned kPageLog = 12;

// The numbers that were used last, of lines or of pages, as many as there is room for. Any may lie
// anywhere, so that no luck of addresses decides.
class Cache {
 public:
  struct Found {
    bool here;
    uintptr_t gone;  // which one made room; 0: none
  };

  explicit Cache(size_t room) : room_(room) {}

  bool has_bound() const { return room_ != 0; }
  Found use(uintptr_t number) {
    const auto [found, is_new] = places_.try_emplace(number);
    if (!is_new) {
      numbers_.splice(numbers_.begin(), numbers_, found->second);
      return {true, 0};
    }
    numbers_.push_front(number);
    found->second = numbers_.begin();
    if (numbers_.size() <= room_) return {false, 0};
    const uintptr_t gone = numbers_.back();
    numbers_.pop_back();
    places_.erase(gone);
    return {false, gone};
  }

 private:
  size_t room_;
  std::list<uintptr_t> numbers_;  // the latest first
  std::unordered_map<uintptr_t, std::list<uintptr_t>::iterator> places_;
};

struct Processor {
  void* stack = nullptr;
  void* thread_pointer = nullptr;
  unsigned index = 0;
  bool inside = false;
  uint64_t clock = 0;
  uintptr_t spun_on = 0;  // the line of the last atomic operation
  Cache lines{0};
  Cache pages{0};
  Misses misses;
};

// Who has a copy: a few by number, more in a set. Small, for there is one for each line in use.
struct Line {
  static constexpr unsigned kFew = 3;
  using Set = std::bitset<kMostProcessors + 1>;  // and the room's

  uint16_t holders = 0;
  std::array<uint16_t, kFew> few{};  // until there are more
  std::unique_ptr<Set> all;

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
        all = std::make_unique<Set>();
        for (const unsigned each : few) all->set(each);
      }
      all->set(processor);
    }
    ++holders;
  }
  void remove(unsigned processor) {
    if (!is_held_by(processor)) return;
    if (holders-- <= kFew) {
      *std::find(few.begin(), few.begin() + holders, processor) = few[holders];
      return;
    }
    all->reset(processor);
    if (holders != kFew) return;
    for (size_t i = 0, each = all->_Find_first(); i < kFew; ++i, each = all->_Find_next(each)) {
      few[i] = static_cast<uint16_t>(each);
    }
  }
};

using Page = std::array<Line, kPageLines>;
using Turn = std::pair<uint64_t, unsigned>;  // clock and index

struct Machine {
  explicit Machine(const Shape& wanted)
      : shape(wanted), processors(wanted.processors + wanted.room) {}

  const Shape shape;
  std::vector<Processor> processors;  // the last may be the room's
  void (*room)() = nullptr;           // once it was started
  bool room_found_nothing = false;    // twice, since others last had a turn
  unsigned running = 0;               // of the program, have not ended
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

[[noreturn]] void stuck() {
  std::fputs("simulation: every processor waits\n", stderr);
  std::abort();
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

bool is_room(unsigned processor) { return processor == here->shape.processors; }

// A room first does what it was asked for.
void next_turn() {
  if (here->running == 0 && here->room == nullptr) return resume(here->outside);
  if (here->ready.empty() && !end_a_spin()) stuck();
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
  if (is_room(me().index)) {
    me().inside = true;
    here->room();
    std::abort();  // it has no end
  }
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

void keep_in_cache(uintptr_t number) {
  if (!me().lines.has_bound()) return;
  const auto [here_before, gone] = me().lines.use(number);
  if (gone != 0) here->line(gone).remove(me().index);
}

// The cycles that it takes until the line is here.
uint64_t visit(uintptr_t number, bool writes) {
  Line& line = here->line(number);
  Processor& self = me();
  keep_in_cache(number);
  const bool held = line.is_held_by(self.index);
  const bool misses = !held || (writes && line.holders > 1);
  const bool from_others = misses && line.holders > held;
  const bool of_room = from_others && here->shape.room &&
                       (is_room(self.index) || line.is_held_by(here->shape.processors));
  if (misses) {
    if (places::noting && self.inside) places::note(of_room ? here->shape.transfer : kMiss, number);
    ++(of_room ? self.misses.transfers : writes ? self.misses.stores : self.misses.loads);
    ++(line.holders == 0 ? tally.fetches : tally.moves);
  }
  if (writes) {
    line.give_to(self.index);
  } else if (!held) {
    line.add(self.index);
  }
  return of_room ? here->shape.transfer : misses ? kMiss : 0;
}

// The same for the page's translation.
uint64_t translate(uintptr_t page, bool writes) {
  Processor& self = me();
  if (!self.pages.has_bound() || self.pages.use(page).here) return 0;
  ++(writes ? self.misses.page_stores : self.misses.page_loads);
  return kMiss;
}

uintptr_t line_of(const volatile void* at) { return reinterpret_cast<uintptr_t>(at) >> kLineLog; }
uintptr_t last_line_of(const volatile void* at, size_t bytes) {
  return line_of(static_cast<const volatile char*>(at) + bytes - 1);
}

// Its lines come together, and so do the translations.
void reach(const volatile void* at, size_t bytes, bool writes) {
  const uintptr_t first = line_of(at), last = last_line_of(at, bytes);
  uint64_t lines = 0, pages = 0;
  for (uintptr_t number = first; number <= last; ++number) {
    lines = std::max(lines, visit(number, writes));
  }
  constexpr unsigned kLines = kPageLog - kLineLog;
  for (uintptr_t page = first >> kLines; page <= last >> kLines; ++page) {
    pages = std::max(pages, translate(page, writes));
  }
  me().clock += 1 + lines + pages;
  if (writes && !here->spinning.empty()) {
    for (uintptr_t number = first; number <= last; ++number) end_spins(number);
  }
}

Misses sum(unsigned from, unsigned to) {
  Misses all;
  for (unsigned i = from; i != to; ++i) {
    const Misses& each = here->processors[i].misses;
    all.loads += each.loads;
    all.stores += each.stores;
    all.transfers += each.transfers;
    all.page_loads += each.page_loads;
    all.page_stores += each.page_stores;
  }
  return all;
}

}  // namespace

void run(const Shape& shape, const std::function<void(unsigned)>& body) {
  Machine machine(shape);
  const auto processors = static_cast<unsigned>(machine.processors.size());
  here = &machine;
  machine.body = &body;
  machine.running = shape.processors;
  machine.now = &machine.outside;
  machine.outside.thread_pointer = __builtin_thread_pointer();
  const size_t all_stacks = processors * kStackBytes;
  void* const stacks = mmap(nullptr, all_stacks, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) std::abort();
  // These lend their thread-local storage, and wait meanwhile. C++'s own semaphores would yield,
  // and that is the machine's (system.cc).
  std::vector<std::thread> threads;
  sem_t lent;
  sem_init(&lent, 0, 0);
  std::vector<sem_t> ends(processors);
  for (unsigned i = 0; i < processors; ++i) {
    Processor& each = machine.processors[i];
    each.index = i;
    each.lines = Cache(is_room(i) ? shape.room_lines : shape.lines);
    each.pages = Cache(shape.pages);
    each.stack = new_stack(static_cast<char*>(stacks) + i * kStackBytes);
    sem_t& end = ends[i];
    sem_init(&end, 0, 0);
    threads.emplace_back([&each, &lent, &end] {
      each.thread_pointer = __builtin_thread_pointer();
      sem_post(&lent);
      sem_wait(&end);
    });
    sem_wait(&lent);
    if (!is_room(i)) make_ready(each);
  }
  next_turn();
  here = nullptr;
  for (unsigned i = 0; i < processors; ++i) {
    sem_post(&ends[i]);
    threads[i].join();
  }
  munmap(stacks, all_stacks);
}

bool start_room(void (*room)()) {
  if (!here->shape.room || here->room != nullptr) return false;
  here->room = room;
  here->processors.back().clock = me().clock + kSystemCall;
  make_ready(here->processors.back());
  return true;
}

unsigned processors() { return here->shape.processors; }
Misses misses_of_program() { return sum(0, here->shape.processors); }
Misses misses_of_room() {
  return sum(here->shape.processors, static_cast<unsigned>(here->processors.size()));
}
bool is_inside() { return here != nullptr && me().inside && !recording; }
unsigned processor() { return me().index; }
uint64_t clock() { return me().clock; }

Inside::Inside() { me().inside = true; }
Inside::~Inside() { me().inside = false; }

void access(const volatile void* at, size_t bytes, bool writes) {
  if (bytes == 0) return;
  recording = true;
  ++tally.accesses;
  reach(at, bytes, writes);
  recording = false;
}

void use(const void* at, size_t bytes, bool writes) {
  const Tally before = tally;
  reach(at, bytes, writes);
  tally = before;
}

void advance(uint64_t cycles) { me().clock += cycles; }

void let_others() {
  if (here->ready.empty() || here->ready.top() > Turn{me().clock, me().index}) return;
  make_ready(me());
  next_turn();
}

void note_atomic(const volatile void* at) { me().spun_on = line_of(at); }

namespace {

// Where the program has ended, or waits while two rounds found nothing, it has nothing to wait for.
void spin_in_room() {
  if (here->running == 0) return resume(here->outside);
  if (here->ready.empty()) {
    if (here->room_found_nothing && !end_a_spin()) stuck();
    here->room_found_nothing = true;
  } else {
    here->room_found_nothing = false;
  }
  let_others();
}

}  // namespace

void spin() {
  me().clock += kPause;
  if (is_room(me().index)) return spin_in_room();
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
  if (me().lines.has_bound()) return use(at, bytes, true);
  const uintptr_t last = last_line_of(at, bytes);
  for (uintptr_t number = line_of(at); number <= last; ++number) {
    here->line(number).give_to(me().index);
  }
}

}  // namespace machine
