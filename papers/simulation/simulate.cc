// Objects that one heap allocates and another one frees, on a simulated machine with a processor
// for each heap. Prints one line of JSON: what the operations cost, in counts.
//
//   --pattern=producers  half of the heaps allocate, half free; a queue of messages between them,
//                        with room for two for each producer (malloc-test of bench/)
//   --pattern=pairs      the same with a queue for each producer, which one other heap empties
//   --pattern=exchange   each heap allocates, gives to another one chosen at random, and frees what
//                        it was given (snmalloc 3.1)
//   --pattern=cache-thrash   each heap allocates an object, writes to it --writes times, frees it
//   --pattern=cache-scratch  the same, after each has freed an object that the first allocated
//   --pattern=larson     each heap replaces objects of an array, drawn by lot, and hands it on to
//                        the next
//   --pattern=program    each heap replaces --live objects, drawn by lot; before each it makes
//                        --think accesses, one in four at one of these, the others within --set KiB
//                        (NextGen-Malloc 2.2, 4.2)
//
// All heaps together free --objects of --min to --max bytes, after --warm that do not count: each
// heap 1024 at least, as many as fill an outbox of a megabyte; in cache-thrash and cache-scratch
// one. The program's own work takes no time, except in the last four: there its accesses take what
// an access takes. own_moves are the lines that they moved in the three before.
//
// --cache=KIB bounds the caches of the heaps' processors, --pages=ENTRIES their translations. Then
// what the program does with its objects takes time in all patterns, and misses are counted.
// --room-cache=KIB is one more processor, with such a cache, for an allocator's own thread, and
// --transfer=CYCLES what a line takes to that processor or from it.
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "../bench/common.h"
#include "engine/engine.h"
#include "loft/loft.h"
#include "simulation/machine.h"
#include "simulation/places.h"

// Of an engine with a room.
extern "C" unsigned long loft_nextgen_served() noexcept __attribute__((weak));
extern "C" unsigned long loft_nextgen_unserved() noexcept __attribute__((weak));

namespace {

struct Object {
  void* at;
  size_t bytes;
};

// Without a write to the object.
Object allocate_only(bench::Random& random, uint32_t least, uint32_t most) {
  const size_t bytes = random.between(least, most);
  void* at;
  {
    const machine::Inside inside;
    at = loft_malloc(bytes);
  }
  if (at == nullptr) bench::fail("no memory");
  return {at, bytes};
}

void release_only(const Object& object) {
  const machine::Inside inside;
  loft_free(object.at);
}

Object allocate(bench::Random& random, uint32_t least, uint32_t most) {
  const Object object = allocate_only(random, least, most);
  machine::hold(object.at, object.bytes);
  return object;
}

void release(const Object& object) {
  machine::hold(object.at, object.bytes);
  release_only(object);
}

// Lines that the program moved, not the allocator.
uint64_t own_moves = 0;

void touch(const void* at, size_t bytes, bool writes) {
  machine::let_others();
  const machine::Tally before = machine::tally;
  machine::access(at, bytes, writes);
  own_moves += machine::tally.moves - before.moves;
  machine::tally = before;
}

struct Settings {
  unsigned heaps;
  uint64_t share, warm, message;  // objects: for each heap, before them, in a message
  uint64_t writes;                // to each object
  unsigned places;                // to print
  uint32_t least, most;
  uint64_t live, think, set;  // of the pattern `program`
  machine::Shape shape;
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

// bench/cache_thrash.cc. Heaps that have objects in one line take it from each other. Whoever has
// it writes a hundred times before the next one has it: the way takes longer.
class Thrash : public Workload {
 public:
  explicit Thrash(const Settings& settings) : Workload(settings) {}

  void work(unsigned, bench::Random& random, uint64_t share) override {
    for (uint64_t i = 0; i < share; ++i) {
      const Object object = allocate_only(random, settings_.least, settings_.most);
      for (uint64_t w = 0; w < settings_.writes; w += kAtOnce) {
        touch(object.at, object.bytes, true);
        machine::advance(kAtOnce - 1);
      }
      release_only(object);
    }
  }

 private:
  static constexpr uint64_t kAtOnce = 100;
  static_assert(kAtOnce < machine::kMiss);
};

// bench/cache_scratch.cc. The objects that the first heap allocates are in one line; whoever frees
// one and gets it back has a part of that line.
class Scratch : public Thrash {
 public:
  explicit Scratch(const Settings& settings) : Thrash(settings), given_(settings.heaps) {}

  void work(unsigned heap, bench::Random& random, uint64_t share) override {
    machine::let_others();
    if (heap == 0) {
      for (Object& each : given_) {
        each = allocate_only(random, settings_.least, settings_.most);
        touch(each.at, each.bytes, true);
      }
      machine::wake_all(&given_);
    } else if (given_[heap].at == nullptr) {
      machine::sleep(&given_);
    }
    release_only(std::exchange(given_[heap], {}));
    Thrash::work(heap, random, share);
  }

 private:
  std::vector<Object> given_;
};

// bench/larson.cc. An array's next thread is that of the next heap, for none ends here.
class Larson : public Workload {
 public:
  explicit Larson(const Settings& settings)
      : Workload(settings), arrays_(settings.heaps), generations_(settings.heaps) {}

  void work(unsigned heap, bench::Random& random, uint64_t share) override {
    if (arrays_[heap].slots.empty()) {
      while (arrays_[heap].slots.size() != kSlots) arrays_[heap].slots.push_back(fill(random));
    }
    while (share != 0) {
      const uint64_t replaced = std::min(share, kGeneration);
      replace(heap, random, replaced);
      share -= replaced;
    }
  }

 private:
  static constexpr uint32_t kSlots = 512;
  static constexpr uint64_t kGeneration = 8 * kSlots;

  struct Array {
    std::vector<Object> slots;
    uint64_t generations = 0;  // that have ended
  };

  Object fill(bench::Random& random) {
    const Object object = allocate_only(random, settings_.least, settings_.most);
    touch(object.at, sizeof(uint64_t), true);
    return object;
  }

  void replace(unsigned heap, bench::Random& random, uint64_t count) {
    const uint64_t generation = generations_[heap]++;
    // The first is a heap's own, and each heap hands its array on to the one below it.
    Array& array = arrays_[(heap + generation) % settings_.heaps];
    machine::let_others();
    if (array.generations != generation) machine::sleep(&array);
    for (uint64_t i = 0; i < count; ++i) {
      Object& slot = array.slots[random.below(kSlots)];
      touch(slot.at, sizeof(uint64_t), false);
      release_only(slot);
      slot = fill(random);
    }
    machine::let_others();
    ++array.generations;
    machine::wake_one(&array, 0);
  }

  std::vector<Array> arrays_;
  std::vector<uint64_t> generations_;  // that a heap has begun
};

// A program that does more than allocate. What its processor has room for decides whether a line or
// a page of the allocator's costs it one of its own.
class Program : public Workload {
 public:
  explicit Program(const Settings& settings) : Workload(settings), heaps_(settings.heaps) {
    for (Heap& each : heaps_) {
      each.set =
          mmap(nullptr, settings.set, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (each.set == MAP_FAILED) bench::fail("no memory");
    }
  }
  ~Program() override {
    for (const Heap& each : heaps_) munmap(each.set, settings_.set);
  }

  void work(unsigned heap, bench::Random& random, uint64_t share) override {
    Heap& mine = heaps_[heap];
    while (mine.live.size() != settings_.live) mine.live.push_back(make(random));
    for (uint64_t i = 0; i < share; ++i) {
      for (uint64_t k = 0; k < settings_.think; ++k) think(mine, random);
      Object& one = any_of(mine, random);
      machine::use(one.at, sizeof(uint64_t), false);
      release_only(one);
      one = make(random);
    }
  }

 private:
  struct Heap {
    void* set;
    std::vector<Object> live;
  };

  Object& any_of(Heap& mine, bench::Random& random) const {
    return mine.live[random.below(static_cast<uint32_t>(settings_.live))];
  }
  Object make(bench::Random& random) const {
    const Object made = allocate_only(random, settings_.least, settings_.most);
    machine::use(made.at, made.bytes, true);
    return made;
  }
  // One in four writes.
  void think(Heap& mine, bench::Random& random) const {
    const uint32_t drawn = random.below(16);
    const Object of = drawn < 4 ? any_of(mine, random) : Object{mine.set, settings_.set};
    const auto words = static_cast<uint32_t>(of.bytes / sizeof(uint64_t));
    const auto* const word = static_cast<const uint64_t*>(of.at) + random.below(words);
    machine::use(word, sizeof(uint64_t), drawn % 4 == 0);
  }

  std::vector<Heap> heaps_;
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
  uint64_t own_moves = 0;
  engine::Counts counts;
  machine::Misses misses, in_room;
  uint64_t served = 0, unserved = 0;
};

bool has_room() { return loft_nextgen_served != nullptr; }

Moment look() {
  return {machine::clock(),
          machine::tally,
          own_moves,
          engine::counts(),
          machine::misses_of_program(),
          machine::misses_of_room(),
          has_room() ? loft_nextgen_served() : 0,
          has_room() ? loft_nextgen_unserved() : 0};
}

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
  number("own_moves", from.own_moves, to.own_moves);
  number("exchanges", from.counts.exchanges, to.counts.exchanges);
  number("swaps", from.counts.swaps, to.counts.swaps);
  number("swap_retries", from.counts.swap_retries, to.counts.swap_retries);
  number("messages", from.counts.messages, to.counts.messages);
  number("forwarded", from.counts.forwarded, to.counts.forwarded);
  number("locks", from.counts.locks, to.counts.locks);
  number("lock_waits", from.counts.lock_waits, to.counts.lock_waits);
  number("load_misses", from.misses.loads, to.misses.loads);
  number("store_misses", from.misses.stores, to.misses.stores);
  number("page_load_misses", from.misses.page_loads, to.misses.page_loads);
  number("page_store_misses", from.misses.page_stores, to.misses.page_stores);
  number("transfers", from.misses.transfers, to.misses.transfers);
  if (has_room()) {
    number("room_misses", from.in_room.loads + from.in_room.stores,
           to.in_room.loads + to.in_room.stores);
    number("served", from.served, to.served);
    number("unserved", from.unserved, to.unserved);
  }
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
  machine::run(settings.shape, [&](unsigned heap) {
    bench::Random random(heap + 1);
    const auto wait = [&](Moment& moment) {
      if (!barrier.arrive()) return;
      moment = look();
      machine::places::noting = settings.places != 0 && &moment == &from;
      barrier.open();
    };
    pattern.work(heap, random, settings.warm);
    wait(from);
    pattern.work(heap, random, settings.share);
    wait(to);
  });
  print(name, settings, from, to);
  machine::places::print(settings.places);
}

struct Known {
  const char* name;
  uint32_t most;      // bytes of an object, if --max is not given
  unsigned multiple;  // of which the heaps are
  uint64_t least;     // objects of a heap
  void (*simulate)(const std::string& name, const Settings& settings);
};
constexpr Known kPatterns[] = {
    {"producers", 2048, 2, 1024, simulate<Producers>},
    {"pairs", 2048, 2, 1024, simulate<Pairs>},
    {"exchange", 2048, 2, 1024, simulate<Exchange>},
    {"cache-scratch", 8, 1, 1, simulate<Scratch>},
    {"cache-thrash", 8, 1, 1, simulate<Thrash>},
    {"larson", 1000, 1, 1024, simulate<Larson>},
    {"program", 256, 1, 256, simulate<Program>},
};

const Known& pattern_of(const std::string& name) {
  for (const Known& each : kPatterns) {
    if (name == each.name) return each;
  }
  bench::fail(
      "--pattern: producers, pairs, exchange, cache-scratch, cache-thrash, larson or program, not "
      "%s",
      name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  fix_addresses(argv);
  bench::Arguments arguments(argc, argv);
  Settings settings{};
  const std::string name = arguments.word("pattern", "producers");
  const Known& pattern = pattern_of(name);
  settings.heaps = static_cast<unsigned>(
      arguments.number("heaps", 8, pattern.multiple, machine::kMostProcessors));
  const auto share = [&](const char* option, uint64_t all) {
    return std::max<uint64_t>(arguments.number(option, all) / settings.heaps, pattern.least);
  };
  settings.warm = share("warm", 1 << 18);
  settings.share = share("objects", 1 << 19);
  settings.message = arguments.number("message", 32);
  settings.writes = arguments.number("writes", 100'000);
  settings.least = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  settings.most =
      static_cast<uint32_t>(arguments.number("max", pattern.most, settings.least, 1 << 20));
  settings.places = static_cast<unsigned>(arguments.number("places", 0, 0, 1000));
  settings.live = arguments.number("live", 2048, 1, UINT32_MAX);
  settings.think = arguments.number("think", 3000, 0);
  settings.set = arguments.number("set", 160, 1, 1 << 20) << 10;
  const auto lines = [&](const char* option) { return arguments.number(option, 0) << 10 >> 6; };
  settings.shape = {.processors = settings.heaps,
                    .lines = lines("cache"),
                    .pages = arguments.number("pages", 0),
                    .room_lines = lines("room-cache"),
                    .transfer = arguments.number("transfer", machine::kMiss)};
  settings.shape.room = settings.shape.room_lines != 0;
  arguments.finish();
  if (settings.heaps % pattern.multiple != 0) bench::fail("--heaps is even");
  if (pattern.multiple != 1 &&
      (settings.warm % settings.message != 0 || settings.share % settings.message != 0)) {
    bench::fail("what each heap does is no multiple of --message");
  }
  pattern.simulate(name, settings);
}
