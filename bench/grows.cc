// A program whose memory only grows: it builds a table of objects and reads it in random order.
// With --step, each object is written only once in so many bytes, as a program does that asks for
// more than it uses; its resident memory is then to stay that of the pages that it wrote.
//
// Source: none; what a parser or an in-memory table does to the system. The cost is that of pages
// touched for the first time, and of the translation buffers afterwards. The peak is read beside
// the faults.
#include <sys/resource.h>

#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("count", 1'000'000, 1, UINT32_MAX);
  auto min = static_cast<uint32_t>(arguments.number("min", 16, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 256, min, 1 << 20));
  auto step = static_cast<uint32_t>(arguments.number("step", 64, 8, 1 << 20));
  uint64_t reads = arguments.number("reads", 4 * count);
  arguments.finish();

  bench::Table<uint64_t*> objects(count);
  bench::Team team;
  bench::Random random(1);
  double building = 0;
  double reading = 0;
  team.run_here([&] {
    double start = bench::now();
    for (uint64_t i = 0; i < count; i++) {
      uint32_t size = random.between(min, max);
      auto* bytes = static_cast<char*>(bench::allocate(size));
      for (uint32_t at = 8; at < size; at += step) bytes[at] = 1;
      objects[i] = reinterpret_cast<uint64_t*>(bytes);
      *objects[i] = i;
    }
    building = bench::now() - start;
    start = bench::now();
    for (uint64_t i = 0; i < reads; i++) {
      uint32_t chosen = random.below(static_cast<uint32_t>(count));
      if (*objects[chosen] != chosen) bench::fail("an object was overwritten");
    }
    reading = bench::now() - start;
  });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  bench::Result("grows", building + reading, count, team)
      .live(count * (min + max) / 2)
      .number("build_seconds", building)
      .number("read_seconds", reading)
      .number("faults", static_cast<double>(usage.ru_minflt))
      .print();
}
