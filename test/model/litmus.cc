// The explorer's own memory model: small programs of which it is known what C++ lets them read.
// Each names one outcome, and whether it is possible.
#include <array>
#include <cstdio>
#include <new>

#include "base/atomic.h"
#include "engine.h"

namespace {

using namespace loft;
using Tasks = std::vector<std::function<void()>>;
using Values = std::array<int, 4>;

constexpr auto relaxed = memory_order_relaxed;
constexpr auto acquire = memory_order_acquire;
constexpr auto release = memory_order_release;
constexpr auto both = memory_order_acq_rel;
constexpr auto total = memory_order_seq_cst;

Atomic<int> x, y, z;
Values values;

struct Litmus {
  const char* name;
  Tasks tasks;
  Values outcome;
  bool possible;
  bool seen = false;
};

auto set(Atomic<int>& word, std::memory_order order) {
  return [&word, order] { word.store(1, order); };
}
auto get(size_t place, const Atomic<int>& word, std::memory_order order) {
  return [&word, order, place] { values[place] = word.load(order); };
}
auto fence(std::memory_order order) {
  return [order] { thread_fence(order); };
}
auto in_turn(auto... steps) {
  return [=] { (steps(), ...); };
}

Tasks each_stores_and_loads(std::memory_order between) {
  return {in_turn(set(x, relaxed), fence(between), get(0, y, relaxed)),
          in_turn(set(y, relaxed), fence(between), get(1, x, relaxed))};
}
Tasks message(std::memory_order store, std::memory_order load) {
  return {in_turn(set(x, relaxed), set(y, store)), in_turn(get(0, y, load), get(1, x, relaxed))};
}
Tasks message_by_fences(std::memory_order before, std::memory_order after) {
  return {in_turn(set(x, relaxed), fence(before), set(y, relaxed)),
          in_turn(get(0, y, relaxed), fence(after), get(1, x, relaxed))};
}
Tasks two_writers(std::memory_order between) {
  return {set(x, relaxed), set(y, relaxed),
          in_turn(get(0, x, acquire), fence(between), get(1, y, acquire)),
          in_turn(get(2, y, acquire), fence(between), get(3, x, acquire))};
}
Tasks by_a_third(std::function<void()> third) {
  return {in_turn(set(x, relaxed), set(y, release)), third,
          in_turn(get(0, y, acquire), get(1, x, relaxed))};
}

std::vector<Litmus> all = {
    {"store, load", each_stores_and_loads(relaxed), {0, 0}, true},
    {"store, load: fences of acquire and release", each_stores_and_loads(both), {0, 0}, true},
    {"store, load: seq_cst fences", each_stores_and_loads(total), {0, 0}, false},

    {"message: relaxed", message(relaxed, relaxed), {1, 0}, true},
    {"message: no acquire", message(release, relaxed), {1, 0}, true},
    {"message: no release", message(relaxed, acquire), {1, 0}, true},
    {"message: release, acquire", message(release, acquire), {1, 0}, false},
    {"message: it comes", message(release, acquire), {1, 1}, true},
    {"message: two fences", message_by_fences(release, acquire), {1, 0}, false},
    {"message: no acquire fence", message_by_fences(release, relaxed), {1, 0}, true},
    {"message: no release fence", message_by_fences(relaxed, acquire), {1, 0}, true},
    {"message: acquire fence for release", message_by_fences(acquire, acquire), {1, 0}, true},
    {"message: release fence for acquire", message_by_fences(release, release), {1, 0}, true},
    {"message: seq_cst fences", message_by_fences(total, total), {1, 0}, false},

    {"two writers, two readers", two_writers(relaxed), {1, 0, 1, 0}, true},
    {"two writers, two readers: other fences", two_writers(both), {1, 0, 1, 0}, true},
    {"two writers, two readers: seq_cst fences", two_writers(total), {1, 0, 1, 0}, false},

    {"one word is not read backwards",
     {set(x, relaxed), in_turn(get(0, x, relaxed), get(1, x, relaxed))},
     {1, 0},
     false},
    {"an exchange goes on with what was released",
     by_a_third([] {
       int one = 1;
       y.compare_exchange_strong(one, 2, relaxed);
     }),
     {2, 0},
     false},
    {"a store does not go on with it",
     by_a_third([] {
       if (y.load(relaxed) == 1) y.store(2, relaxed);
     }),
     {2, 0},
     true},
    // If the first has not read y, its fence is before the second's.
    {"what was before a fence is passed on",
     {in_turn(set(x, relaxed), fence(total), get(0, y, relaxed)),
      in_turn(set(y, relaxed), fence(total), set(z, release)),
      in_turn(get(1, z, acquire), get(2, x, relaxed))},
     {0, 1, 0},
     false},
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<model::Scenario> scenarios;
  for (Litmus& one : all) {
    const auto set_up = [] {
      for (Atomic<int>* word : {&x, &y, &z}) new (word) Atomic<int>(0);
      values = {};
    };
    const auto finish = [&one] { one.seen = one.seen || values == one.outcome; };
    scenarios.push_back({one.name, set_up, one.tasks, finish});
  }
  int status = model::explore_all(scenarios, argc, argv);
  for (const Litmus& one : all) {
    if (one.seen == one.possible) continue;
    std::printf("WRONG: %s: %s\n", one.name, one.seen ? "it is impossible" : "it was not found");
    status = 1;
  }
  return status;
}
