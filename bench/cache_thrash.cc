// Active false sharing: every thread allocates a small object, writes to it many times, frees it,
// again and again. An allocator that serves two threads from one cache line makes them fight over
// it.
//
// Source: cache-thrash of the Hoard paper (Berger, McKinley, Blumofe, Wilson, ASPLOS 2000,
// section 5). An operation is one write.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t rounds = arguments.number("rounds", 2000);
  uint64_t writes = arguments.number("writes", 100'000);
  uint64_t size = arguments.number("size", 8, 1, 1 << 20);
  arguments.finish();

  bench::Team team;
  double seconds = team.run(threads, [&](size_t index) {
    for (uint64_t r = 0; r < rounds; r++) {
      auto* p = static_cast<volatile unsigned char*>(bench::allocate(size));
      auto mark = static_cast<unsigned char>(index + r);
      for (uint64_t i = 0; i < size; i++) p[i] = mark;
      for (uint64_t w = 0, at = 0; w < writes; w++) {
        p[at] = static_cast<unsigned char>(p[at] + 1);
        if (++at == size) at = 0;
      }
      for (uint64_t i = 0; i < size; i++) {
        auto added = static_cast<unsigned char>(writes / size + (i < writes % size ? 1 : 0));
        if (p[i] != static_cast<unsigned char>(mark + added))
          bench::fail("an object has two owners");
      }
      bench::release(const_cast<unsigned char*>(p));
    }
  });
  bench::Result("cache_thrash", seconds, threads * rounds * writes, team).print();
}
