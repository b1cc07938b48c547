// One thread allocates 4096 objects, then another frees them, then the first goes on: strictly by
// turns, so that nothing overlaps and the sum of both sides' costs shows.
//
// Source: the degenerate case of malloc-test (snmalloc, ISMM 2019, section 3.1) with a queue of one
// message; it is where an allocator that hoards remote frees gains nothing from concurrency.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("count", 4096, 1, 10'000'000);
  uint64_t rounds = arguments.number("rounds", 5000);
  uint64_t size = arguments.number("size", 64, 8, 1 << 20);
  arguments.finish();

  bench::Team team;
  bool spin = team.fits(2);
  bench::Table<uint64_t*> objects(count);
  alignas(128) std::atomic<uint64_t> turn{0};
  auto await = [&](uint64_t value) {
    while (turn.load(std::memory_order_acquire) != value) {
      if (spin) {
        bench::pause();
      } else {
        std::this_thread::yield();
      }
    }
  };
  uint64_t freed = 0;
  double seconds = team.run(2, [&](size_t index) {
    for (uint64_t round = 0; round < rounds; round++) {
      if (index == 0) {
        await(2 * round);
        for (uint64_t i = 0; i < count; i++) {
          objects[i] = static_cast<uint64_t*>(bench::allocate(size));
          *objects[i] = round + i;
        }
        turn.store(2 * round + 1, std::memory_order_release);
      } else {
        await(2 * round + 1);
        for (uint64_t i = 0; i < count; i++) {
          if (i % 64 == 0 && *objects[i] != round + i) {
            bench::fail("object %" PRIu64 " of round %" PRIu64 " was overwritten", i, round);
          }
          bench::release(objects[i]);
        }
        freed += count;
        turn.store(2 * round + 2, std::memory_order_release);
      }
    }
  });
  if (freed != rounds * count) bench::fail("%" PRIu64 " objects freed", freed);
  bench::Result("alternation", seconds, freed, team).print();
}
