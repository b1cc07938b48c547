// Hot loop: malloc and free of one size, again and again.
//
// Source: the cheapest row of every allocator comparison (linux-scalability, Lever and Boreham,
// "malloc() Performance in a Multithreaded Linux Environment", USENIX 2000, with one thread). It
// measures the two fast paths and nothing else. --min and --max bound the sizes, stepped by 16.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t rounds = arguments.number("rounds", 10'000'000);
  uint64_t min = arguments.number("min", 16, 8, 1 << 20);
  uint64_t max = arguments.number("max", 128, min, 1 << 20);
  arguments.finish();

  bench::Team team;
  uint64_t pairs = 0;
  double seconds = team.run_here([&] {
    for (uint64_t size = min; size <= max; size += 16) {
      for (uint64_t i = 0; i < rounds; i++) {
        auto* p = static_cast<uint64_t*>(bench::allocate(size));
        *p = i;
        bench::escape(p);
        if (*p != i) bench::fail("object of %" PRIu64 " bytes lost its contents", size);
        bench::release(p);
      }
      pairs += rounds;
    }
  });
  bench::Result("hot_loop", seconds, pairs, team).print();
}
