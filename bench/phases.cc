// Threads that share one table of objects go through phases: each has sizes and lifetimes of its
// own, and takes over what the one before it left. What does the process hold, beside what is
// alive, at the end of each?
//
// Source: the fragmentation of long runs, which shows where a program changes what it does
// (Johnstone and Wilson, "The Memory Fragmentation Problem: Solved?", ISMM 1998). An operation
// allocates one object and frees the one in whose slot it goes, with two threads half the time the
// other's; sizes are spread evenly over their powers of two. Each page of an object is written. At
// the end of a phase all threads stop, the process looks at its memory, and goes on at once.
#include <barrier>

#include "memory.h"

namespace {

enum class Life {
  kRandom,  // any slot is the next one
  kQueue,   // the slots in turn: all objects live equally long
  kFew,     // of ten times, nine in the first sixteenth of the slots: most die young
};

struct Phase {
  uint32_t min;
  uint32_t max;
  uint64_t kib;  // alive, about
  Life life;
};

// A program that starts small, buffers, indexes, takes in whole documents, winds down to a tenth,
// and starts over.
constexpr Phase kPhases[] = {
    {16, 256, 48 << 10, Life::kRandom},     {1024, 16 << 10, 96 << 10, Life::kQueue},
    {16, 64, 32 << 10, Life::kFew},         {16, 64 << 10, 96 << 10, Life::kRandom},
    {128, 512, 8 << 10, Life::kRandom},     {16, 256, 48 << 10, Life::kFew},
    {512, 256 << 10, 96 << 10, Life::kFew},
};

struct Object {
  uint32_t slot;
  uint32_t size;
};

uint32_t log2_of(uint32_t power) { return 31 - static_cast<uint32_t>(__builtin_clz(power)); }

// Every power of two is as likely as the others, and within one every size.
uint32_t draw_size(bench::Random& random, const Phase& phase) {
  uint32_t powers = log2_of(phase.max) - log2_of(phase.min);
  uint32_t low = phase.min << random.below(powers);
  return random.between(low, 2 * low);
}

uint32_t slots_of(const Phase& phase) {
  uint64_t powers = log2_of(phase.max) - log2_of(phase.min);
  uint64_t average = uint64_t{phase.max - phase.min} * 3 / 2 / powers;
  return static_cast<uint32_t>(phase.kib * 1024 / average);
}

uint32_t draw_slot(bench::Random& random, const Phase& phase, uint64_t turn) {
  uint32_t slots = slots_of(phase);
  switch (phase.life) {
    case Life::kQueue:
      return static_cast<uint32_t>(turn % slots);
    case Life::kFew:
      if (random.below(10) != 0) return random.below(slots / 16);
      [[fallthrough]];
    case Life::kRandom:
      break;
  }
  return random.below(slots);
}

Object* make(uint32_t slot, uint32_t size) {
  auto* p = static_cast<char*>(bench::allocate(size));
  for (uint32_t at = 0; at < size; at += 4096) p[at] = 1;
  auto* object = reinterpret_cast<Object*>(p);
  *object = {slot, size};
  return object;
}

// How many bytes that was.
uint32_t drop(Object* object, uint32_t slot) {
  if (object == nullptr) return 0;
  if (object->slot != slot) bench::fail("the object in slot %u was overwritten", slot);
  uint32_t size = object->size;
  bench::release(object);
  return size;
}

constexpr uint64_t kStep = 1000;  // operations that a thread takes at a time

struct AtEnd {
  int64_t live;
  bench::Residence memory;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t count = arguments.number("count", 1'000'000, threads);
  uint64_t limit_mib = arguments.number("limit-mib", 4 << 10, 64);
  arguments.finish();

  uint32_t most = 0;
  for (const Phase& phase : kPhases) most = std::max(most, slots_of(phase));
  bench::Table<std::atomic<Object*>> table(most);
  std::vector<AtEnd> ends(std::size(kPhases));
  std::vector<std::atomic<uint64_t>> taken(std::size(kPhases));
  std::atomic<int64_t> live{0};
  std::barrier barrier(static_cast<ptrdiff_t>(threads));
  bench::Team team;
  double seconds = team.run(threads, [&](size_t index) {
    bench::Random random(index + 1);
    int64_t change = 0;
    // The share of the slots from `first` on.
    auto clear = [&](uint32_t first) {
      for (uint64_t at = first + index; at < most; at += threads) {
        auto slot = static_cast<uint32_t>(at);
        change -= drop(table[slot].exchange(nullptr), slot);
      }
    };
    for (size_t number = 0; number < std::size(kPhases); number++) {
      const Phase& phase = kPhases[number];
      clear(slots_of(phase));
      // Each thread's turn comes where the one before it has been.
      uint64_t turn = index * slots_of(phase) / threads;
      // All are at it until the phase ends, however fast each is.
      for (uint64_t first; (first = taken[number].fetch_add(kStep)) < count;) {
        if (index == 0) bench::fail_above(limit_mib);
        for (uint64_t left = std::min(kStep, count - first); left != 0; left--) {
          uint32_t size = draw_size(random, phase);
          uint32_t slot = draw_slot(random, phase, turn++);
          change += size;
          change -= drop(table[slot].exchange(make(slot, size)), slot);
        }
      }
      live.fetch_add(change);
      change = 0;
      barrier.arrive_and_wait();
      if (index == 0) ends[number] = {live.load(), bench::Residence::now()};
      barrier.arrive_and_wait();
    }
    clear(0);
    live.fetch_add(change);
  });
  if (live.load() != 0) bench::fail("%" PRId64 " bytes were lost", live.load());
  // Only the table is not the program's: what an allocator takes before it is asked counts.
  uint64_t table_kib = bench::TableBytes::now.load() / 1024;
  std::string text;
  int64_t peak = 0;
  for (const AtEnd& end : ends) {
    char line[256];
    std::snprintf(line, sizeof line,
                  "%s{\"live_kib\": %" PRId64 ", \"rss_kib\": %" PRIu64
                  ", \"lazy_free_kib\": %" PRIu64 ", \"huge_kib\": %" PRIu64 "}",
                  text.empty() ? "[" : ", ", end.live / 1024, end.memory.rss - table_kib,
                  end.memory.lazy_free, end.memory.huge);
    text += line;
    peak = std::max(peak, end.live);
  }
  bench::Result("phases", seconds, count * std::size(kPhases), team)
      .live(static_cast<uint64_t>(peak))
      .json("phases", text + "]")
      .print();
}
