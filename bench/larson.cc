// Server threads that replace random objects of a table, and hand the table over to a successor
// thread, which frees what its predecessor allocated.
//
// Source: larson (Larson and Krishnan, "Memory Allocation for Long-Running Server Applications",
// ISMM 1998), with the sizes that mimalloc-bench gives it (8..1000 bytes, 5000 objects a thread).
// A fixed amount of work, not of time. The heap is fresh unless --litter says how many objects of
// the same sizes a first thread makes for each server, of which nine in ten, drawn at random, are
// freed before the clock starts: a fresh heap flatters allocators that only bump a pointer.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t slots = arguments.number("slots", 5000, 1, 10'000'000);
  uint64_t generations = arguments.number("generations", 20);
  uint64_t rounds = arguments.number("rounds", 1'000'000);
  uint64_t litter = arguments.number("litter", 0, 0, 100'000'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 1000, min, 1 << 20));
  arguments.finish();

  bench::Team team;
  bench::Table<uint64_t*> tables(threads * slots);
  bench::Table<uint64_t*> littered(threads * litter + 1);
  std::atomic<uint64_t> freed{0};
  auto body = [&](size_t index) {
    uint64_t** table = &tables[index * slots];
    bench::Random random(index + 1);
    auto fill = [&](uint32_t at) {
      table[at] = static_cast<uint64_t*>(bench::allocate(random.between(min, max)));
      *table[at] = index << 32 | at;
    };
    auto empty = [&](uint32_t at) {
      if (*table[at] != (index << 32 | at)) bench::fail("object in slot %u was overwritten", at);
      bench::release(table[at]);
    };
    for (uint32_t at = 0; at < slots; at++) fill(at);
    for (uint64_t g = 0; g < generations; g++) {
      std::thread([&] {
        bench::pin(team.cpu_of(index));
        for (uint64_t i = 0; i < rounds; i++) {
          uint32_t at = random.below(static_cast<uint32_t>(slots));
          empty(at);
          fill(at);
        }
      }).join();
    }
    for (uint32_t at = 0; at < slots; at++) empty(at);
    freed.fetch_add(generations * rounds + slots);
  };
  auto scatter = [&](size_t index) {
    // A thread of its own, as all that follow are.
    std::thread([&, index] {
      bench::pin(team.cpu_of(index));
      bench::Random random(~index);
      uint64_t** objects = &littered[index * litter];
      for (uint64_t i = 0; i < litter; i++) {
        objects[i] = static_cast<uint64_t*>(bench::allocate(random.between(min, max)));
        *objects[i] = i;
      }
      for (uint64_t i = 0; i < litter; i++) {
        if (random.below(10) == 0) continue;
        bench::release(objects[i]);
        objects[i] = nullptr;
      }
    }).join();
  };
  double seconds = team.run(threads, body, scatter);
  for (size_t i = 0; i < threads * litter; i++) {
    if (littered[i] == nullptr) continue;
    if (*littered[i] != i % litter) bench::fail("littered object %zu was overwritten", i);
    bench::release(littered[i]);
  }
  // The threads of a team wait for their servers, so their own share of a CPU says nothing.
  bench::Result("larson", seconds, freed, team)
      .live(threads * std::max(slots + litter / 10, litter) * (min + max) / 2)
      .word("mode", "waiting")
      .print();
}
