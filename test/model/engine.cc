#include "engine.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>

namespace model {

namespace {

constexpr unsigned kMaxTasks = 6;
constexpr unsigned kMaxLocations = 64;
constexpr unsigned kMaxSteps = 3000;  // of one run: no program here is nearly as long
constexpr size_t kStackBytes = 256 * 1024;

enum class Kind : uint8_t {
  kStart,
  kLoad,
  kStore,
  kUpdate,
  kLock,
  kTryLock,
  kUnlock,
  kWait,
  kAsleep,
  kWake,
  kEndOthers,
};
const char* const kKindNames[] = {"start",  "load", "store",  "update", "lock",      "try_lock",
                                  "unlock", "wait", "asleep", "wake",   "end others"};

struct Op {
  Kind kind = Kind::kStart;
  const void* location = nullptr;
};

bool reads_only(const Op& op) { return op.kind == Kind::kLoad || op.kind == Kind::kWait; }

bool dependent(const Op& a, const Op& b) {
  if (a.kind == Kind::kEndOthers || b.kind == Kind::kEndOthers) return true;
  if (a.location == nullptr || a.location != b.location) return false;
  return !(reads_only(a) && reads_only(b));
}

// Whether there may be a state in which both could go on: then their order is a choice.
bool may_meet(const Op& a, const Op& b) {
  const bool lock_and_unlock = (a.kind == Kind::kLock && b.kind == Kind::kUnlock) ||
                               (a.kind == Kind::kUnlock && b.kind == Kind::kLock);
  return !lock_and_unlock;
}

// The oldest store of each location that may still be read.
using View = std::array<uint8_t, kMaxLocations>;
using Clock = std::array<uint16_t, kMaxTasks>;

template <class A>
void join(A& into, const A& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct Stored {
  uint64_t value;
  bool releases;
  View view;
  Clock clock;
};

struct Location {
  const void* address;
  std::vector<Stored> stores;
  Clock accesses{};  // of each task, the last
  bool held = false;
  View lock_view{};
  Clock lock_clock{};
};

// What a run decided: which task went on, or which of several stores a load read.
struct Choice {
  bool of_task = false;
  unsigned chosen = 0;
  unsigned count = 0;  // of stores
  // Of a task:
  unsigned enabled = 0, backtrack = 0, done = 0, sleep = 0;
  unsigned previous = 0, preemptions = 0;
};

struct Step {
  size_t choice;
  unsigned task;
  Op op;
  std::array<uint16_t, kMaxTasks> after;  // steps that happen before its task's next one
};

struct Task {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool alive = false;
  Op pending;
  View view{};
  Clock clock{};
  std::array<uint16_t, kMaxTasks> after{};
};

struct Violation {
  std::string what;
};

struct Range {
  uintptr_t from, to;
  bool contains(const void* p) const { return reinterpret_cast<uintptr_t>(p) - from < to - from; }
};

std::vector<Range> constants, memory;

const Scenario* scenario;
std::array<Task, kMaxTasks> tasks;
unsigned task_count;
int current = -1;  // the task that runs; -1: none
ucontext_t explorer;
bool failed;
std::string violation;

std::vector<Location> locations;
std::map<const void*, unsigned> location_of;
struct Plain {
  Clock writes{}, reads{};
};
std::map<const void*, Plain> plain;

// In memory that a run in a child of its own shares with the explorer.
enum class Outcome { kDone, kRedundant, kViolation };
struct Shared {
  Outcome outcome;
  char violation[256];
  size_t count;
  Choice choices[4 * kMaxSteps];
};
Shared* shared;

struct Choices {
  size_t size() const { return shared->count; }
  bool empty() const { return shared->count == 0; }
  void clear() { shared->count = 0; }
  void push_back(const Choice& choice) { shared->choices[shared->count++] = choice; }
  void pop_back() { --shared->count; }
  Choice& back() { return shared->choices[shared->count - 1]; }
  Choice& operator[](size_t i) { return shared->choices[i]; }
} choices;
size_t position;  // in choices
std::vector<Step> steps;

Task& self() { return tasks[static_cast<unsigned>(current)]; }
bool in_task() { return current >= 0 && !failed; }

uint64_t read_memory(const void* at, unsigned size) {
  uint64_t word = 0;
  std::memcpy(&word, at, size);
  return word;
}
void write_memory(void* at, unsigned size, uint64_t word) { std::memcpy(at, &word, size); }

void yield(Op op) {
  self().pending = op;
  swapcontext(&self().context, &explorer);
  ++self().clock[static_cast<unsigned>(current)];
}

// Which of `count` possibilities this run takes.
unsigned choose(unsigned count) {
  if (count == 1) return 0;
  if (position == choices.size()) {
    Choice choice;
    choice.count = count;
    choices.push_back(choice);
  }
  return choices[position++].chosen;
}

Location& location_at(const void* address, unsigned size) {
  const auto [entry, is_new] =
      location_of.try_emplace(address, static_cast<unsigned>(locations.size()));
  if (is_new) {
    if (locations.size() == kMaxLocations) fail("the explorer has room for too few locations");
    Location location;
    location.address = address;
    location.stores.push_back(Stored{read_memory(address, size), false, {}, {}});
    locations.push_back(std::move(location));
  }
  return locations[entry->second];
}

uint8_t& seen(const Location& location) {
  return self().view[static_cast<size_t>(&location - locations.data())];
}

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

void check_address(const void* address) {
  if (memory.empty()) return;
  for (const Range& range : memory) {
    if (range.contains(address)) return;
  }
  fail("an access to memory that is nobody's: a damaged link was followed");
}

bool is_constant(const void* address) {
  return std::any_of(constants.begin(), constants.end(),
                     [&](const Range& range) { return range.contains(address); });
}

// An atomic access must be ordered after the last plain write to the same word.
void check_against_plain(const Location& location) {
  const auto entry = plain.find(location.address);
  if (entry == plain.end()) return;
  for (unsigned t = 0; t < task_count; ++t) {
    if (entry->second.writes[t] > self().clock[t]) fail("data race: a message used after its end");
  }
}

Location& access(const void* address, unsigned size, Kind kind) {
  check_address(address);
  yield({kind, address});
  Location& location = location_at(address, size);
  check_against_plain(location);
  const auto me = static_cast<unsigned>(current);
  location.accesses[me] = self().clock[me];
  return location;
}

uint64_t read(Location& location, size_t index, std::memory_order order) {
  const Stored& stored = location.stores[index];
  seen(location) = static_cast<uint8_t>(index);
  if (acquires(order) && stored.releases) {
    join(self().view, stored.view);
    join(self().clock, stored.clock);
  }
  return stored.value;
}

void write(Location& location, uint64_t value, std::memory_order order, bool continues) {
  const Stored before = location.stores.back();
  if (location.stores.size() == 255) fail("does not end");
  seen(location) = static_cast<uint8_t>(location.stores.size());
  Stored stored{value, releases(order), self().view, self().clock};
  if (!stored.releases) {
    stored.view = View{};
    stored.clock = Clock{};
  }
  if (continues && before.releases) {
    stored.releases = true;
    join(stored.view, before.view);
    join(stored.clock, before.clock);
  }
  location.stores.push_back(stored);
}

template <class Next>
uint64_t update(void* address, unsigned size, std::memory_order order, std::memory_order failure,
                Next&& next) {
  if (!in_task()) {
    const uint64_t before = read_memory(address, size);
    uint64_t after = before;
    if (next(before, after)) write_memory(address, size, after);
    return before;
  }
  Location& location = access(address, size, Kind::kUpdate);
  const size_t newest = location.stores.size() - 1;
  uint64_t after = 0;
  const bool done = next(location.stores[newest].value, after);
  const uint64_t before = read(location, newest, done ? order : failure);
  if (done) {
    write(location, after, order, true);
    write_memory(address, size, after);
  }
  return before;
}

void run_task() {
  try {
    scenario->tasks[static_cast<unsigned>(current)]();
  } catch (const Violation& v) {
    if (!failed) violation = v.what;
    failed = true;
  }
  self().alive = false;
  swapcontext(&self().context, &explorer);
}

// Lets a task go on to its next access.
void resume(unsigned task) {
  current = static_cast<int>(task);
  swapcontext(&explorer, &tasks[task].context);
  current = -1;
}

bool is_enabled(const Task& task) {
  if (!task.alive || task.pending.kind == Kind::kAsleep) return false;
  if (task.pending.kind != Kind::kLock) return true;
  const auto entry = location_of.find(task.pending.location);
  return entry == location_of.end() || !locations[entry->second].held;
}

bool is_preemption(const Choice& choice, unsigned task) {
  return choice.previous < kMaxTasks && task != choice.previous &&
         (choice.enabled >> choice.previous & 1) != 0;
}
bool is_allowed(const Choice& choice, unsigned task) {
  return choice.preemptions + (is_preemption(choice, task) ? 1 : 0) <= scenario->preemptions;
}

// For each task, the last step that its next one could have come before: that is to be tried.
void add_backtracks() {
  for (unsigned p = 0; p < task_count; ++p) {
    if (!tasks[p].alive || tasks[p].pending.kind == Kind::kAsleep) continue;
    const auto& before = tasks[p].after;
    for (size_t i = steps.size(); i-- != 0;) {
      const Step& step = steps[i];
      if (step.task == p || !dependent(step.op, tasks[p].pending) ||
          !may_meet(step.op, tasks[p].pending) || before[step.task] >= i + 1) {
        continue;
      }
      Choice& choice = choices[step.choice];
      unsigned candidates = 0;
      if ((choice.enabled >> p & 1) != 0) {
        candidates = 1u << p;
      } else {
        for (size_t j = i + 1; j < steps.size() && candidates == 0; ++j) {
          const unsigned q = steps[j].task;
          if ((choice.enabled >> q & 1) != 0 && before[q] >= j + 1) candidates = 1u << q;
        }
      }
      choice.backtrack |= candidates != 0 ? candidates : choice.enabled;
      break;
    }
  }
}

void record_step(size_t choice, unsigned task, Op op) {
  auto& mine = tasks[task].after;
  for (const Step& step : steps) {
    if (dependent(step.op, op)) join(mine, step.after);
  }
  mine[task] = static_cast<uint16_t>(steps.size() + 1);
  steps.push_back(Step{choice, task, op, mine});
}

void print_steps() {
  std::map<const void*, char> names;
  for (const Step& step : steps) {
    const char name =
        names.try_emplace(step.op.location, static_cast<char>('A' + names.size() % 26))
            .first->second;
    std::printf("    task %u  %-8s %c\n", step.task, kKindNames[static_cast<int>(step.op.kind)],
                step.op.location == nullptr ? ' ' : name);
  }
}

Outcome run_once() {
  current = -1;
  failed = false;
  violation.clear();
  locations.clear();
  location_of.clear();
  plain.clear();
  steps.clear();
  position = 0;
  try {
    scenario->prepare();
  } catch (const Violation& v) {
    violation = v.what;
    return Outcome::kViolation;
  }
  for (unsigned t = 0; t < task_count; ++t) {
    Task& task = tasks[t];
    if (task.stack == nullptr) task.stack.reset(new char[kStackBytes]);
    task.alive = true;
    task.pending = Op{};
    task.view = View{};
    task.clock = Clock{};
    task.clock[t] = 1;
    task.after = {};
    getcontext(&task.context);
    task.context.uc_stack.ss_sp = task.stack.get();
    task.context.uc_stack.ss_size = kStackBytes;
    task.context.uc_link = nullptr;
    makecontext(&task.context, run_task, 0);
    resume(t);  // to its first access
    if (failed) return Outcome::kViolation;
  }
  unsigned sleep = 0, previous = kMaxTasks, preemptions = 0;
  for (;;) {
    unsigned enabled = 0, alive = 0;
    for (unsigned t = 0; t < task_count; ++t) {
      alive |= tasks[t].alive ? 1u << t : 0;
      enabled |= is_enabled(tasks[t]) ? 1u << t : 0;
    }
    if (alive == 0) break;
    if (enabled == 0) {
      violation = "deadlock";
      return Outcome::kViolation;
    }
    if (steps.size() == kMaxSteps) {
      violation = "does not end";
      return Outcome::kViolation;
    }
    add_backtracks();
    const bool is_new = position == choices.size();
    if (is_new) {
      Choice choice;
      choice.of_task = true;
      choice.enabled = enabled;
      choice.sleep = sleep;
      choice.previous = previous;
      choice.preemptions = preemptions;
      unsigned awake = enabled & ~sleep;
      if (awake == 0) return Outcome::kRedundant;
      choice.chosen = (previous < kMaxTasks && (awake >> previous & 1) != 0)
                          ? previous
                          : static_cast<unsigned>(__builtin_ctz(awake));
      choice.backtrack = 1u << choice.chosen;
      choices.push_back(choice);
    }
    const size_t at = position++;
    const unsigned chosen = choices[at].chosen;
    const Op op = tasks[chosen].pending;
    if (is_new && op.kind == Kind::kEndOthers) choices[at].backtrack |= enabled;
    preemptions += is_preemption(choices[at], chosen) ? 1 : 0;
    previous = chosen;
    sleep = 0;
    for (unsigned t = 0; t < task_count; ++t) {
      if ((choices[at].sleep >> t & 1) != 0 && !dependent(tasks[t].pending, op)) sleep |= 1u << t;
    }
    record_step(at, chosen, op);
    resume(chosen);
    if (failed) return Outcome::kViolation;
  }
  try {
    scenario->finish();
  } catch (const Violation& v) {
    violation = v.what;
    return Outcome::kViolation;
  }
  return Outcome::kDone;
}

// Prepares the choices for the next run. False if all have been made.
bool advance() {
  while (!choices.empty()) {
    Choice& choice = choices.back();
    if (!choice.of_task) {
      if (++choice.chosen < choice.count) return true;
    } else {
      choice.done |= 1u << choice.chosen;
      choice.sleep |= 1u << choice.chosen;
      for (unsigned t = 0; t < task_count; ++t) {
        if (((choice.backtrack & ~choice.done & ~choice.sleep) >> t & 1) != 0 &&
            is_allowed(choice, t)) {
          choice.chosen = t;
          return true;
        }
      }
    }
    choices.pop_back();
  }
  return false;
}

Outcome run() {
  if (!scenario->own_process) return run_once();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    shared->outcome = run_once();
    std::snprintf(shared->violation, sizeof(shared->violation), "%s", violation.c_str());
    if (shared->outcome == Outcome::kViolation) print_steps();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  violation = ended ? shared->violation : "the program crashed";
  return ended ? shared->outcome : Outcome::kViolation;
}

bool explore(const Scenario& s) {
  scenario = &s;
  task_count = static_cast<unsigned>(s.tasks.size());
  choices.clear();
  const auto start = std::chrono::steady_clock::now();  // time: is told, not judged
  unsigned long runs = 0, redundant = 0;
  bool all = false;
  while (runs + redundant < s.runs) {
    const Outcome outcome = run();
    if (outcome == Outcome::kViolation) {
      std::printf("%s: VIOLATION after %lu runs: %s\n", s.name, runs + 1, violation.c_str());
      if (!s.own_process) print_steps();
      return false;
    }
    ++(outcome == Outcome::kDone ? runs : redundant);
    if (!advance()) {
      all = true;
      break;
    }
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;  // time: the same
  std::printf("%s: %lu runs, %lu cut short as redundant, %s, %.1f s\n", s.name, runs, redundant,
              !all                   ? "bounded by their number"
              : s.preemptions != ~0u ? "all within the bound on preemptions"
                                     : "all there are",
              seconds.count());
  std::fflush(stdout);
  return true;
}

}  // namespace

uint64_t load(const void* address, unsigned size, std::memory_order order) {
  if (!in_task() || is_constant(address)) return read_memory(address, size);
  Location& location = access(address, size, Kind::kLoad);
  const size_t newest = location.stores.size() - 1;
  const unsigned older = choose(static_cast<unsigned>(newest - seen(location) + 1));
  return read(location, newest - older, order);
}

void store(void* address, unsigned size, uint64_t value, std::memory_order order) {
  if (in_task()) {
    Location& location = access(address, size, Kind::kStore);
    write(location, value, order, false);
  }
  write_memory(address, size, value);
}

uint64_t exchange(void* address, unsigned size, uint64_t value, std::memory_order order) {
  return update(address, size, order, order, [&](uint64_t, uint64_t& after) {
    after = value;
    return true;
  });
}

uint64_t fetch_add(void* address, unsigned size, uint64_t value, std::memory_order order) {
  return update(address, size, order, order, [&](uint64_t before, uint64_t& after) {
    after = before + value;
    return true;
  });
}

uint64_t compare_exchange(void* address, unsigned size, uint64_t expected, uint64_t value,
                          std::memory_order success, std::memory_order failure) {
  return update(address, size, success, failure, [&](uint64_t before, uint64_t& after) {
    after = value;
    return before == expected;
  });
}

void lock(void* address) {
  if (!in_task()) return;
  yield({Kind::kLock, address});
  Location& location = location_at(address, 1);
  location.held = true;
  join(self().view, location.lock_view);
  join(self().clock, location.lock_clock);
}

bool try_lock(void* address) {
  if (!in_task()) return true;
  yield({Kind::kTryLock, address});
  Location& location = location_at(address, 1);
  if (location.held) return false;
  location.held = true;
  join(self().view, location.lock_view);
  join(self().clock, location.lock_clock);
  return true;
}

void unlock(void* address) {
  if (!in_task()) return;
  yield({Kind::kUnlock, address});
  Location& location = location_at(address, 1);
  location.held = false;
  location.lock_view = self().view;
  location.lock_clock = self().clock;
}

void wait_on_word(const void* word, uint32_t expected) {
  if (!in_task()) return;
  yield({Kind::kWait, word});
  // The kernel compares with what is there now.
  if (read_memory(word, sizeof(uint32_t)) == expected) yield({Kind::kAsleep, word});
}

void wake_one(const void* word) {
  if (!in_task()) return;
  yield({Kind::kWake, word});
  std::vector<unsigned> asleep;
  for (unsigned t = 0; t < task_count; ++t) {
    const Op& op = tasks[t].pending;
    if (tasks[t].alive && op.kind == Kind::kAsleep && op.location == word) asleep.push_back(t);
  }
  if (asleep.empty()) return;
  Task& woken = tasks[asleep[choose(static_cast<unsigned>(asleep.size()))]];
  woken.pending = Op{};
  join(woken.after, self().after);
}

void plain_read(const void* location) {
  if (!in_task()) return;
  Plain& word = plain[location];
  for (unsigned t = 0; t < task_count; ++t) {
    if (word.writes[t] > self().clock[t]) fail("data race: read of a word not yet published");
  }
  const auto me = static_cast<unsigned>(current);
  word.reads[me] = self().clock[me];
}

void plain_write(const void* location) {
  if (!in_task()) return;
  Plain& word = plain[location];
  const auto atomics = location_of.find(location);
  for (unsigned t = 0; t < task_count; ++t) {
    uint16_t last = std::max(word.writes[t], word.reads[t]);
    if (atomics != location_of.end()) last = std::max(last, locations[atomics->second].accesses[t]);
    if (last > self().clock[t]) fail("data race: write to a word that another task still uses");
  }
  const auto me = static_cast<unsigned>(current);
  word.writes[me] = self().clock[me];
}

void end_other_tasks() {
  if (!in_task()) return;
  yield({Kind::kEndOthers, nullptr});
  for (unsigned t = 0; t < task_count; ++t) {
    if (static_cast<int>(t) == current) continue;
    tasks[t].alive = false;
    // Memory is as they left it.
    join(self().clock, tasks[t].clock);
  }
  for (Location& location : locations) {
    seen(location) = static_cast<uint8_t>(location.stores.size() - 1);
  }
}

void fail(const std::string& what) { throw Violation{what}; }

void declare_constant(const void* from, size_t bytes) {
  const auto base = reinterpret_cast<uintptr_t>(from);
  constants.push_back({base, base + bytes});
}

void declare_memory(const void* from, size_t bytes) {
  const auto base = reinterpret_cast<uintptr_t>(from);
  memory.push_back({base, base + bytes});
}

int explore_all(const std::vector<Scenario>& scenarios, int argc, char** argv) {
  const bool expected = argc > 1 && std::strcmp(argv[1], "--expect-violation") == 0;
  void* memory_for_choices =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory_for_choices == MAP_FAILED) return 2;
  shared = new (memory_for_choices) Shared;
  bool found = false;
  for (const Scenario& s : scenarios) {
    found = !explore(s) || found;
    if (found && expected) break;
  }
  if (expected) std::printf(found ? "The seeded bug is caught.\n" : "The seeded bug is MISSED.\n");
  return found == expected ? 0 : 1;
}

}  // namespace model
