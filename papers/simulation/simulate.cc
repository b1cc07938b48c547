// Objects that one heap allocates and another one frees, on a simulated machine with a processor
// for each heap. Prints one line of JSON: what the operations cost, in counts.
//
//   --pattern=producers  half of the heaps allocate, half free; a queue of messages between them,
//                        with room for two for each producer (malloc-test of bench/)
//   --pattern=pairs      the same with a queue for each producer, which one other heap empties
//   --pattern=exchange   each heap allocates, gives to another one chosen at random, and frees what
//                        it was given (snmalloc 3.1)
//
// All heaps together free --objects of --min to --max bytes, after --warm that do not count: each
// heap 1024 at least, as many as fill an outbox of a megabyte. The program's own work takes no
// time.
#include <sys/personality.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "../bench/common.h"
#include "engine/engine.h"
#include "loft/loft.h"
#include "simulation/machine.h"

namespace {

struct Object {
  void* at;
  size_t bytes;
};

Object allocate(bench::Random& random, uint32_t least, uint32_t most) {
  const size_t bytes = random.between(least, most);
  void* at;
  {
    const machine::Inside inside;
    at = loft_malloc(bytes);
  }
  if (at == nullptr) bench::fail("no memory");
  machine::hold(at, bytes);
  return {at, bytes};
}

void release(const Object& object) {
  machine::hold(object.at, object.bytes);
  const machine::Inside inside;
  loft_free(object.at);
}

struct Settings {
  unsigned heaps;
  uint64_t share, warm, message;  // objects: for each heap, before them, in a message
  uint32_t least, most;
};

// One queue for all, first in, first out.
class Queue {
 public:
  explicit Queue(size_t room) : room_(room) {}

  void send(std::vector<Object>&& message) {
    machine::let_others();
    while (messages_.size() == room_) machine::sleep(&room_);
    messages_.push_back(std::move(message));
    machine::wake_one(&messages_, 0);
  }
  std::vector<Object> receive() {
    machine::let_others();
    while (messages_.empty()) machine::sleep(&messages_);
    std::vector<Object> first = std::move(messages_.front());
    messages_.pop_front();
    machine::wake_one(&room_, 0);
    return first;
  }

 private:
  const size_t room_;
  std::deque<std::vector<Object>> messages_;
};

class Workload {
 public:
  explicit Workload(const Settings& settings) : settings_(settings) {}
  virtual ~Workload() = default;
  // A heap's part in moving `share` objects for each heap.
  virtual void work(unsigned heap, bench::Random& random, uint64_t share) = 0;

 protected:
  const Settings& settings_;
};

class Producers : public Workload {
 public:
  explicit Producers(const Settings& settings, unsigned queues = 1) : Workload(settings) {
    while (queues_.size() != queues) queues_.emplace_back(settings.heaps / queues);
  }

  void work(unsigned heap, bench::Random& random, uint64_t share) override {
    Queue& queue = queues_[heap / 2 % queues_.size()];
    for (uint64_t i = 0; i < 2 * share / settings_.message; ++i) {
      if (heap % 2 == 0) {
        std::vector<Object> message;
        while (message.size() != settings_.message) {
          message.push_back(allocate(random, settings_.least, settings_.most));
        }
        queue.send(std::move(message));
      } else {
        for (const Object& each : queue.receive()) release(each);
      }
    }
  }

 private:
  std::deque<Queue> queues_;
};

class Pairs : public Producers {
 public:
  explicit Pairs(const Settings& settings) : Producers(settings, settings.heaps / 2) {}
};

class Exchange : public Workload {
 public:
  explicit Exchange(const Settings& settings) : Workload(settings), heaps_(settings.heaps) {}

  void work(unsigned heap, bench::Random& random, uint64_t share) override {
    Heap& mine = heaps_[heap];
    mine.goal += share * settings_.heaps;
    for (uint64_t made = 0;;) {
      machine::let_others();
      if (made == share && freed_ == mine.goal) break;
      if (made != share && mine.under_way != kWindow) {
        const unsigned other = random.below(settings_.heaps - 1);
        give(heap, other + (other >= heap), random);
        ++made;
      } else if (mine.given.empty()) {
        machine::sleep(&mine);
        continue;
      }
      if (!mine.given.empty()) free_first(mine);
    }
  }

 private:
  // Objects of a heap that others have. A heap that is given much would else come to give less and
  // less, and the others would give more for it.
  static constexpr unsigned kWindow = 256;

  struct Heap {
    std::deque<std::pair<Object, unsigned>> given;  // and by whom
    unsigned under_way = 0;
    uint64_t goal = 0;  // of freed_
  };

  void give(unsigned heap, unsigned other, bench::Random& random) {
    const Object object = allocate(random, settings_.least, settings_.most);
    machine::let_others();
    heaps_[other].given.emplace_back(object, heap);
    ++heaps_[heap].under_way;
    machine::wake_one(&heaps_[other], 0);
  }

  void free_first(Heap& mine) {
    const auto [object, from] = mine.given.front();
    mine.given.pop_front();
    release(object);
    --heaps_[from].under_way;
    machine::wake_one(&heaps_[from], 0);
    if (++freed_ != mine.goal) return;
    for (const Heap& each : heaps_) machine::wake_one(&each, 0);
  }

  std::vector<Heap> heaps_;
  uint64_t freed_ = 0;
};

// All processors go on from the clock of the last.
class Barrier {
 public:
  // True for the last one, which goes on first.
  bool arrive() {
    machine::let_others();
    if (++arrived_ % machine::processors() == 0) return true;
    machine::sleep(this);
    return false;
  }
  void open() { machine::wake_all(this); }

 private:
  uint64_t arrived_ = 0;
};

struct Moment {
  uint64_t clock = 0;
  machine::Tally tally;
  engine::Counts counts;
};

Moment look() { return {machine::clock(), machine::tally, engine::counts()}; }

void print(const std::string& pattern, const Settings& settings, const Moment& from,
           const Moment& to) {
  std::printf("{\"bench\": \"simulated-%s\", \"heaps\": %u, \"operations\": %" PRIu64
              ", \"cycles\": %" PRIu64,
              pattern.c_str(), settings.heaps, settings.share * settings.heaps,
              to.clock - from.clock);
  const auto number = [](const char* name, uint64_t before, uint64_t after) {
    std::printf(", \"%s\": %" PRIu64, name, after - before);
  };
  number("accesses", from.tally.accesses, to.tally.accesses);
  number("atomics", from.tally.atomics, to.tally.atomics);
  number("moves", from.tally.moves, to.tally.moves);
  number("fetches", from.tally.fetches, to.tally.fetches);
  number("exchanges", from.counts.exchanges, to.counts.exchanges);
  number("swaps", from.counts.swaps, to.counts.swaps);
  number("swap_retries", from.counts.swap_retries, to.counts.swap_retries);
  number("messages", from.counts.messages, to.counts.messages);
  number("forwarded", from.counts.forwarded, to.counts.forwarded);
  number("locks", from.counts.locks, to.counts.locks);
  number("lock_waits", from.counts.lock_waits, to.counts.lock_waits);
  std::printf("}\n");
}

// Addresses decide where hashes lead: the same in each run, where the system allows it.
void fix_addresses(char** argv) {
  const int before = personality(0xffffffff);
  if (before == -1 || (before & ADDR_NO_RANDOMIZE) != 0) return;
  if (personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) == -1) return;
  execv("/proc/self/exe", argv);
}

template <class Pattern>
void simulate(const std::string& name, const Settings& settings) {
  Pattern pattern(settings);
  Barrier barrier;
  Moment from, to;
  machine::run(settings.heaps, [&](unsigned heap) {
    bench::Random random(heap + 1);
    const auto wait = [&](Moment& moment) {
      if (!barrier.arrive()) return;
      moment = look();
      barrier.open();
    };
    pattern.work(heap, random, settings.warm);
    wait(from);
    pattern.work(heap, random, settings.share);
    wait(to);
  });
  print(name, settings, from, to);
}

}  // namespace

int main(int argc, char** argv) {
  fix_addresses(argv);
  bench::Arguments arguments(argc, argv);
  Settings settings{};
  const std::string pattern = arguments.word("pattern", "producers");
  settings.heaps = static_cast<unsigned>(arguments.number("heaps", 8, 2, machine::kMostProcessors));
  const auto share = [&](const char* name, uint64_t all) {
    return std::max<uint64_t>(arguments.number(name, all) / settings.heaps, 1024);
  };
  settings.warm = share("warm", 1 << 18);
  settings.share = share("objects", 1 << 19);
  settings.message = arguments.number("message", 32);
  settings.least = static_cast<uint32_t>(arguments.number("min", 8, 1, 1 << 20));
  settings.most = static_cast<uint32_t>(arguments.number("max", 2048, settings.least, 1 << 20));
  arguments.finish();
  if (settings.heaps % 2 != 0) bench::fail("--heaps is even");
  if (settings.warm % settings.message != 0 || settings.share % settings.message != 0) {
    bench::fail("what each heap does is no multiple of --message");
  }
  if (pattern == "producers") {
    simulate<Producers>(pattern, settings);
  } else if (pattern == "pairs") {
    simulate<Pairs>(pattern, settings);
  } else if (pattern == "exchange") {
    simulate<Exchange>(pattern, settings);
  } else {
    bench::fail("--pattern: producers, pairs or exchange, not %s", pattern.c_str());
  }
}
