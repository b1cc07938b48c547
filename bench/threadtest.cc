// Every thread allocates its share of the objects, then frees them, again and again; nothing is
// shared.
//
// Source: threadtest of the Hoard paper (Berger, McKinley, Blumofe, Wilson, ASPLOS 2000, section 5;
// 30 000 objects of 8 bytes in all, no work between the calls), which the a3alloc report runs with
// one to eight threads (section 3.4).
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t rounds = arguments.number("rounds", 500);
  uint64_t objects = arguments.number("objects", 30'000, 1, 100'000'000);
  uint64_t size = arguments.number("size", 8, 8, 1 << 20);
  arguments.finish();

  bench::Team team;
  uint64_t share = (objects + threads - 1) / threads;
  bench::Table<uint64_t*> tables(threads * share);
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(threads, [&](size_t index) {
    uint64_t** table = &tables[index * share];
    for (uint64_t round = 0; round < rounds; round++) {
      uint64_t stamp = (index << 32) + round;
      for (uint64_t i = 0; i < share; i++) {
        table[i] = static_cast<uint64_t*>(bench::allocate(size));
        *table[i] = stamp + i;
      }
      for (uint64_t i = 0; i < share; i++) {
        if (*table[i] != stamp + i) bench::fail("object %" PRIu64 " was overwritten", i);
        bench::release(table[i]);
      }
    }
    freed.fetch_add(rounds * share);
  });
  if (freed != threads * rounds * share) bench::fail("%" PRIu64 " objects freed", freed.load());
  bench::Result("threadtest", seconds, freed, team).live(threads * share * size).print();
}
