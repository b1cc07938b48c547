// Server threads that replace random objects of a table, and hand the table over to a successor
// thread, which frees what its predecessor allocated.
//
// Source: larson (Larson and Krishnan, "Memory Allocation for Long-Running Server Applications",
// ISMM 1998), on a fresh heap, with the sizes that mimalloc-bench gives it (8..1000 bytes, 5000
// objects a thread). A fixed amount of work, not of time.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t slots = arguments.number("slots", 5000, 1, 10'000'000);
  uint64_t generations = arguments.number("generations", 20);
  uint64_t rounds = arguments.number("rounds", 1'000'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 1000, min, 1 << 20));
  arguments.finish();

  bench::Team team;
  bench::Table<uint64_t*> tables(threads * slots);
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(threads, [&](size_t index) {
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
  });
  // The threads of a team wait for their servers, so their own share of a CPU says nothing.
  bench::Result("larson", seconds, freed, team).word("mode", "waiting").print();
}
