// Builds two million small objects, shuffles the pointers, frees in that random order; several
// times, so that the later builds run on a heap whose free objects lie in random order.
//
// Source: the pattern of a program that builds a large index and drops it; it shows what a free
// list threaded through the objects costs once its order is random (NextGen-Malloc, HotOS 2023,
// section 3, argues for metadata apart from the objects with this effect). The shuffle itself is
// not in the time, but it is in the counters of a whole process.
#include <utility>

#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("count", 2'000'000, 1, UINT32_MAX);
  uint64_t rounds = arguments.number("rounds", 5);
  auto min = static_cast<uint32_t>(arguments.number("min", 16, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 128, min, 1 << 20));
  arguments.finish();

  bench::Table<uint64_t*> objects(count);
  bench::Team team;
  bench::Random random(1);
  double building = 0;
  double freeing = 0;
  double used = 0;
  team.run_here([&] {
    for (uint64_t round = 0; round < rounds; round++) {
      double start = bench::now();
      double cpu_start = bench::thread_cpu_time();
      for (uint64_t i = 0; i < count; i++) {
        objects[i] = static_cast<uint64_t*>(bench::allocate(random.between(min, max)));
        *objects[i] = i;
      }
      building += bench::now() - start;
      used += bench::thread_cpu_time() - cpu_start;

      uint64_t sum = 0;
      for (uint64_t i = 0; i < count; i++) sum += *objects[i];
      if (sum != count * (count - 1) / 2) bench::fail("objects were overwritten");
      for (uint64_t i = count - 1; i > 0; i--) {
        std::swap(objects[i], objects[random.below(static_cast<uint32_t>(i + 1))]);
      }

      start = bench::now();
      cpu_start = bench::thread_cpu_time();
      for (uint64_t i = 0; i < count; i++) bench::release(objects[i]);
      freeing += bench::now() - start;
      used += bench::thread_cpu_time() - cpu_start;
    }
  });
  bench::Result("build_shuffle_free", building + freeing, rounds * count, team, used)
      .live(count * (min + max) / 2)
      .number("build_seconds", building)
      .number("free_seconds", freeing)
      .print();
}
