// Passive false sharing: the main thread allocates one small object for each thread; each thread
// frees that object and then allocates and writes to its own, again and again. An allocator that
// lets a thread reuse its part of the main thread's cache line makes the threads fight over it.
//
// Source: cache-scratch of the Hoard paper (Berger, McKinley, Blumofe, Wilson, ASPLOS 2000,
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
  std::vector<void*> given(threads);
  for (auto& p : given) {
    p = bench::allocate(size);
    std::memset(p, 1, size);
  }
  double seconds = team.run(threads, [&](size_t index) {
    bench::release(given[index]);
    for (uint64_t r = 0; r < rounds; r++) {
      auto* p = static_cast<volatile unsigned char*>(bench::allocate(size));
      for (uint64_t i = 0; i < size; i++) p[i] = 0;
      for (uint64_t w = 0, at = 0; w < writes; w++) {
        p[at] = static_cast<unsigned char>(p[at] + 1);
        if (++at == size) at = 0;
      }
      unsigned sum = 0;
      for (uint64_t i = 0; i < size; i++) sum += p[i];
      unsigned expected = 0;
      for (uint64_t i = 0; i < size; i++) {
        expected += static_cast<unsigned char>(writes / size + (i < writes % size ? 1 : 0));
      }
      if (sum != expected) bench::fail("an object has two owners");
      bench::release(const_cast<unsigned char*>(p));
    }
  });
  bench::Result("cache_scratch", seconds, threads * rounds * writes, team).print();
}
