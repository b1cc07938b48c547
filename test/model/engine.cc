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
#include <fstream>
#include <map>
#include <memory>
#include <new>

namespace model {

namespace {

constexpr unsigned kMaxTasks = 6;
constexpr unsigned kMaxLocations = 64;
constexpr size_t kMaxSites = 256;
// Of one scenario with a weaker order: what is noticed is noticed soon.
constexpr unsigned long kRunsOfOneOrder = 1000;
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
  kFence,
  kEndOthers,
};
const char* const kKindNames[] = {"start",  "load", "store",  "update", "lock",  "try_lock",
                                  "unlock", "wait", "asleep", "wake",   "fence", "end others"};

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

// What a thread knows: the stores that it may no longer miss, and what happened before.
struct Knowledge {
  View view{};
  Clock clock{};

  void learn(const Knowledge& more) {
    join(view, more.view);
    join(clock, more.clock);
  }
};

struct Stored {
  uint64_t value;
  Knowledge released;  // what one learns who acquires it
};

struct Location {
  const void* address;
  std::vector<Stored> stores;
  Clock accesses{};  // of each task, the last
  bool held = false;
  Knowledge of_holders;
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
  Knowledge known;
  Knowledge behind_fence;  // what an acquire fence would add: relaxed loads have read it
  Knowledge before_fence;  // at the last release fence: relaxed stores release it
  std::array<uint16_t, kMaxTasks> after{};
};

struct Violation {
  std::string what;
};

struct Range {
  uintptr_t from, to;
  bool contains(const void* p) const { return reinterpret_cast<uintptr_t>(p) - from < to - from; }
};

std::vector<Range> unexplored, memory, instrumented;

bool is_in(const std::vector<Range>& ranges, const void* p) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.contains(p); });
}
void declare(std::vector<Range>& ranges, const void* from, size_t bytes) {
  const auto base = reinterpret_cast<uintptr_t>(from);
  ranges.push_back({base, base + bytes});
}

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
View of_fences;  // what the seq_cst fences so far had in view

// An operation in the source that asks for an order.
struct Site {
  const char* operation;
  std::memory_order order;
  Place place;
  uint64_t scenarios;  // a bit for each that reaches it

  bool is_at(const char* what, std::memory_order asked, const Place& where) const {
    return where.line() == place.line() && where.column() == place.column() && asked == order &&
           std::strcmp(what, operation) == 0 &&
           std::strcmp(where.file_name(), place.file_name()) == 0;
  }
};
const Site* weakened;  // nullptr: each order is as in the source
std::memory_order weaker;
size_t scenario_number;

// In memory that a run in a child of its own shares with the explorer.
enum class Outcome { kDone, kRedundant, kViolation };
struct Shared {
  size_t site_count;
  Site sites[kMaxSites];
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
  ++self().known.clock[static_cast<unsigned>(current)];
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
    location.stores.push_back(Stored{read_memory(address, size), {}});
    locations.push_back(std::move(location));
  }
  return locations[entry->second];
}

uint8_t& seen(const Location& location) {
  return self().known.view[static_cast<size_t>(&location - locations.data())];
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
  if (!memory.empty() && !is_in(memory, address)) {
    fail("an access to memory that is nobody's: a damaged link was followed");
  }
}

// An atomic access must be ordered after the last plain write to the same word.
void check_against_plain(const Location& location) {
  const auto entry = plain.find(location.address);
  if (entry == plain.end()) return;
  for (unsigned t = 0; t < task_count; ++t) {
    if (entry->second.writes[t] > self().known.clock[t]) {
      fail("data race: a message used after its end");
    }
  }
}

const char* const kFence = "fence";

// The order of an operation in this run.
std::memory_order in_force(const char* operation, std::memory_order order, const Place& place) {
  if (order == std::memory_order_relaxed) return order;
  check(order != std::memory_order_seq_cst || operation == kFence, "only fences may be seq_cst");
  if (weakened != nullptr) return weakened->is_at(operation, order, place) ? weaker : order;
  const auto sites = shared->sites;
  const size_t count = shared->site_count;
  size_t i = 0;
  while (i != count && !sites[i].is_at(operation, order, place)) ++i;
  if (i == kMaxSites) fail("the explorer has room for too few places");
  if (i == count) {
    sites[shared->site_count++] = Site{operation, order, place, 0};
  }
  sites[i].scenarios |= uint64_t{1} << scenario_number;
  return order;
}

Location& access(const void* address, unsigned size, Kind kind) {
  check_address(address);
  yield({kind, address});
  Location& location = location_at(address, size);
  check_against_plain(location);
  const auto me = static_cast<unsigned>(current);
  location.accesses[me] = self().known.clock[me];
  return location;
}

uint64_t read(Location& location, size_t index, std::memory_order order) {
  const Stored& stored = location.stores[index];
  seen(location) = static_cast<uint8_t>(index);
  (acquires(order) ? self().known : self().behind_fence).learn(stored.released);
  return stored.value;
}

void write(Location& location, uint64_t value, std::memory_order order, bool continues) {
  if (location.stores.size() == 255) fail("does not end");
  seen(location) = static_cast<uint8_t>(location.stores.size());
  Stored stored{value, releases(order) ? self().known : self().before_fence};
  if (continues) stored.released.learn(location.stores.back().released);
  location.stores.push_back(stored);
}

// `failure`: the order of what turns out to be a load alone.
template <class Next>
uint64_t update(const char* operation, void* address, unsigned size, std::memory_order order,
                std::memory_order failure, Place place, Next&& next) {
  if (!in_task()) {
    const uint64_t before = read_memory(address, size);
    uint64_t after = before;
    if (next(before, after)) write_memory(address, size, after);
    return before;
  }
  order = in_force(operation, order, place);
  failure = in_force("failed compare_exchange", failure, place);
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

void note(const Violation& v) {
  if (!failed) violation = v.what;
  failed = true;
}

void leave_task() {
  self().alive = false;
  swapcontext(&self().context, &explorer);
}

void run_task() {
  try {
    scenario->tasks[static_cast<unsigned>(current)]();
  } catch (const Violation& v) {
    note(v);
  }
  leave_task();
}

// Where the code under test does not expect an exception: the task ends as it stands.
template <class Access>
void without_exceptions(Access&& access) {
  if (!in_task()) return;
  try {
    return access();
  } catch (const Violation& v) {
    note(v);
  }
  leave_task();
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
  constexpr size_t kMost = 200;
  if (steps.size() > kMost) std::printf("    ... %zu steps, then\n", steps.size() - kMost);
  for (size_t i = steps.size() - std::min(steps.size(), kMost); i != steps.size(); ++i) {
    const Step& step = steps[i];
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
  of_fences = {};
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
    task.known = task.behind_fence = task.before_fence = Knowledge{};
    task.known.clock[t] = 1;
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
    if (shared->outcome == Outcome::kViolation && weakened == nullptr) print_steps();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  violation = ended ? shared->violation : "the program crashed";
  return ended ? shared->outcome : Outcome::kViolation;
}

struct Found {
  bool violation = false, all = false;
  unsigned long runs = 0, redundant = 0;
};

Found explore(const Scenario& s) {
  scenario = &s;
  task_count = static_cast<unsigned>(s.tasks.size());
  choices.clear();
  Found found;
  const unsigned long most = weakened == nullptr ? s.runs : std::min(s.runs, kRunsOfOneOrder);
  while (found.runs + found.redundant < most) {
    const Outcome outcome = run();
    ++(outcome == Outcome::kRedundant ? found.redundant : found.runs);
    found.violation = outcome == Outcome::kViolation;
    if (found.violation) break;
    found.all = !advance();
    if (found.all) break;
  }
  return found;
}

bool holds(const Scenario& s) {
  const auto start = std::chrono::steady_clock::now();  // time: is told, not judged
  const Found found = explore(s);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;  // time: the same
  if (found.violation) {
    std::printf("%s: VIOLATION after %lu runs: %s\n", s.name, found.runs, violation.c_str());
    print_steps();
  } else {
    std::printf("%s: %lu runs, %lu cut short as redundant, %s, %.1f s\n", s.name, found.runs,
                found.redundant,
                !found.all             ? "bounded by their number"
                : s.preemptions != ~0u ? "all within the bound on preemptions"
                                       : "all there are",
                seconds.count());
  }
  std::fflush(stdout);
  return !found.violation;
}

const char* name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
    default:
      return "relaxed";
  }
}

// One step each.
std::vector<std::memory_order> weaker_than(std::memory_order order) {
  switch (order) {
    case std::memory_order_seq_cst:
      return {std::memory_order_acq_rel};
    case std::memory_order_acq_rel:
      return {std::memory_order_acquire, std::memory_order_release};
    default:
      return {std::memory_order_relaxed};
  }
}

// "operation order -> weaker order", as scenarios write it, too.
std::string change_of(const Site& site, std::memory_order to) {
  return std::string(site.operation) + " " + name_of(site.order) + " -> " + name_of(to);
}

// Its name in src/. Compilers tell names that are relative to one folder or another.
std::string file_of(const Place& place) {
  std::string name = place.file_name();
  while (name.find('/') != std::string::npos &&
         (name.rfind("../", 0) == 0 || !std::ifstream(LOFT_SOURCES + name))) {
    name.erase(0, name.find('/') + 1);
  }
  return name;
}

std::string line_of(const Place& place) {
  std::ifstream source(LOFT_SOURCES + file_of(place));
  std::string line;
  for (unsigned i = 0; i < place.line(); ++i) std::getline(source, line);
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

bool is_of(const Unnoticed& entry, const Site& site, std::memory_order to) {
  return file_of(site.place) == entry.file && entry.change == change_of(site, to) &&
         line_of(site.place).find(entry.text) != std::string::npos;
}

// Whether some scenario shows the difference.
bool is_noticed(const std::vector<Scenario>& scenarios, const Site& site, std::memory_order to) {
  weakened = &site;
  weaker = to;
  std::string report = "not noticed";
  bool noticed = false;
  for (size_t i = 0; i < scenarios.size() && !noticed; ++i) {
    if ((site.scenarios >> i & 1) == 0) continue;
    const Found found = explore(scenarios[i]);
    noticed = found.violation;
    if (noticed) {
      report =
          std::string(scenarios[i].name) + ": run " + std::to_string(found.runs) + ": " + violation;
    }
  }
  weakened = nullptr;
  std::printf("%s:%u: %s\n    %s\n    %s\n", file_of(site.place).c_str(), site.place.line(),
              line_of(site.place).c_str(), change_of(site, to).c_str(), report.c_str());
  std::fflush(stdout);
  return noticed;
}

// Each order that a scenario met, weakened by a step, by itself. False if one is noticed that
// `unnoticed` has, or is not that it has not; or if it has one that no scenario met.
bool weaken_each(const std::vector<Scenario>& scenarios, const std::vector<Unnoticed>& unnoticed) {
  size_t count = 0, noticed_count = 0, wrong = 0;
  std::vector<bool> met(unnoticed.size());
  for (size_t i = 0; i < shared->site_count; ++i) {
    const Site& site = shared->sites[i];
    for (const std::memory_order to : weaker_than(site.order)) {
      const char* why = nullptr;  // nothing notices it
      for (size_t e = 0; e < unnoticed.size(); ++e) {
        if (!is_of(unnoticed[e], site, to)) continue;
        met[e] = true;
        why = unnoticed[e].why;
      }
      const bool noticed = is_noticed(scenarios, site, to);
      ++count;
      noticed_count += noticed ? 1 : 0;
      if (why != nullptr) std::printf("    the table: %s\n", why);
      if (noticed == (why == nullptr)) continue;
      ++wrong;
      std::printf(noticed ? "    WRONG: the table says that nothing notices it\n"
                          : "    WRONG: no scenario needs this order\n");
    }
  }
  for (size_t e = 0; e < unnoticed.size(); ++e) {
    if (met[e]) continue;
    ++wrong;
    std::printf("WRONG: nothing is %s, %s, %s\n", unnoticed[e].file, unnoticed[e].text,
                unnoticed[e].change);
  }
  std::printf("%zu orders at %zu places weakened: %zu noticed, %zu not\n", count,
              shared->site_count, noticed_count, count - noticed_count);
  return wrong == 0;
}

}  // namespace

uint64_t load(const void* address, unsigned size, std::memory_order order, Place place) {
  if (!in_task() || is_in(unexplored, address)) return read_memory(address, size);
  order = in_force("load", order, place);
  Location& location = access(address, size, Kind::kLoad);
  const size_t newest = location.stores.size() - 1;
  const unsigned older = choose(static_cast<unsigned>(newest - seen(location) + 1));
  return read(location, newest - older, order);
}

void store(void* address, unsigned size, uint64_t value, std::memory_order order, Place place) {
  if (in_task() && !is_in(unexplored, address)) {
    order = in_force("store", order, place);
    Location& location = access(address, size, Kind::kStore);
    write(location, value, order, false);
  }
  write_memory(address, size, value);
}

uint64_t exchange(void* address, unsigned size, uint64_t value, std::memory_order order,
                  Place place) {
  return update("exchange", address, size, order, std::memory_order_relaxed, place,
                [&](uint64_t, uint64_t& after) {
                  after = value;
                  return true;
                });
}

uint64_t fetch_add(void* address, unsigned size, uint64_t value, std::memory_order order,
                   Place place) {
  return update("fetch_add", address, size, order, std::memory_order_relaxed, place,
                [&](uint64_t before, uint64_t& after) {
                  after = before + value;
                  return true;
                });
}

uint64_t fetch_or(void* address, unsigned size, uint64_t value, std::memory_order order,
                  Place place) {
  return update("fetch_or", address, size, order, std::memory_order_relaxed, place,
                [&](uint64_t before, uint64_t& after) {
                  after = before | value;
                  return true;
                });
}

uint64_t compare_exchange(void* address, unsigned size, uint64_t expected, uint64_t value,
                          std::memory_order success, std::memory_order failure, Place place) {
  return update("compare_exchange", address, size, success, failure, place,
                [&](uint64_t before, uint64_t& after) {
                  after = value;
                  return before == expected;
                });
}

void fence(std::memory_order order, Place place) {
  if (!in_task()) return;
  order = in_force(kFence, order, place);
  if (order == std::memory_order_relaxed) return;
  Task& me = self();
  if (order == std::memory_order_seq_cst) {
    // Their order is a total one: each sees what those before it had in view.
    yield({Kind::kFence, &of_fences});
    me.known.learn(me.behind_fence);
    join(me.known.view, of_fences);
    of_fences = me.known.view;
  } else if (acquires(order)) {
    me.known.learn(me.behind_fence);
  }
  if (releases(order)) me.before_fence = me.known;
}

void lock(void* address) {
  if (!in_task()) return;
  yield({Kind::kLock, address});
  Location& location = location_at(address, 1);
  location.held = true;
  self().known.learn(location.of_holders);
}

bool try_lock(void* address) {
  if (!in_task()) return true;
  yield({Kind::kTryLock, address});
  Location& location = location_at(address, 1);
  if (location.held) return false;
  location.held = true;
  self().known.learn(location.of_holders);
  return true;
}

void unlock(void* address) {
  if (!in_task()) return;
  yield({Kind::kUnlock, address});
  Location& location = location_at(address, 1);
  location.held = false;
  location.of_holders = self().known;
}

void wait_on_word(const void* word, uint32_t expected) {
  if (!in_task()) return;
  yield({Kind::kWait, word});
  // The kernel compares with what is there now, and its caller then reads nothing older.
  Location& location = location_at(word, sizeof(uint32_t));
  seen(location) = static_cast<uint8_t>(location.stores.size() - 1);
  if (location.stores.back().value == expected) yield({Kind::kAsleep, word});
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
    if (word.writes[t] > self().known.clock[t]) fail("data race: read of a word not yet published");
  }
  const auto me = static_cast<unsigned>(current);
  word.reads[me] = self().known.clock[me];
}

void plain_write(const void* location) {
  if (!in_task()) return;
  Plain& word = plain[location];
  const auto atomics = location_of.find(location);
  for (unsigned t = 0; t < task_count; ++t) {
    uint16_t last = std::max(word.writes[t], word.reads[t]);
    if (atomics != location_of.end()) last = std::max(last, locations[atomics->second].accesses[t]);
    if (last > self().known.clock[t])
      fail("data race: write to a word that another task still uses");
  }
  const auto me = static_cast<unsigned>(current);
  word.writes[me] = self().known.clock[me];
}

void instrumented_read(const void* location) {
  if (is_in(instrumented, location)) without_exceptions([=] { plain_read(location); });
}
void instrumented_write(const void* location) {
  if (is_in(instrumented, location)) without_exceptions([=] { plain_write(location); });
}
void declare_instrumented(const void* from, size_t bytes) { declare(instrumented, from, bytes); }

void end_other_tasks() {
  if (!in_task()) return;
  yield({Kind::kEndOthers, nullptr});
  for (unsigned t = 0; t < task_count; ++t) {
    if (static_cast<int>(t) == current) continue;
    tasks[t].alive = false;
    // Memory is as they left it.
    join(self().known.clock, tasks[t].known.clock);
  }
  for (Location& location : locations) {
    seen(location) = static_cast<uint8_t>(location.stores.size() - 1);
  }
}

void fail(const std::string& what) { throw Violation{what}; }

void declare_unexplored(const void* from, size_t bytes) { declare(unexplored, from, bytes); }
void declare_memory(const void* from, size_t bytes) { declare(memory, from, bytes); }

int explore_all(const std::vector<Scenario>& scenarios, int argc, char** argv,
                const std::vector<Unnoticed>& unnoticed) {
  const std::string argument = argc > 1 ? argv[1] : "";
  const bool expected = argument == "--expect-violation";
  void* memory_for_choices =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory_for_choices == MAP_FAILED || scenarios.size() > 64) return 2;
  shared = new (memory_for_choices) Shared;
  bool found = false;
  for (scenario_number = 0; scenario_number < scenarios.size(); ++scenario_number) {
    found = !holds(scenarios[scenario_number]) || found;
    if (found && expected) break;
  }
  if (expected) std::printf(found ? "The seeded bug is caught.\n" : "The seeded bug is MISSED.\n");
  if (found != expected) return 1;
  return argument != "--weaken-each" || weaken_each(scenarios, unnoticed) ? 0 : 1;
}

}  // namespace model
