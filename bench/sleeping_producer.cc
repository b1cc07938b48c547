// One thread allocates, hands everything over and sleeps; others free it, and after --quiet-ms
// allocate the same amount themselves: how much of what the sleeper gave up do they get?
//
// Source: a question that users ask of allocators whose freed objects go back to the thread that
// allocated them: what if that thread lies dormant (mimalloc issue 214)? Sizes are drawn from --min
// to --max, about --bytes in all, and are the same the second time. The result has how much the
// process grew by the first amount and, beyond that, by the second: zero if all of it was used
// again or had gone back to the system. An operation is one object; the time means nothing.
#include "memory.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t bytes = arguments.number("bytes", 64 << 20, 1 << 20, uint64_t{1} << 40);
  auto min = static_cast<uint32_t>(arguments.number("min", 16, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 1024, min, 1 << 20));
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t quiet_ms = arguments.number("quiet-ms", 1000, 0, 3'600'000);
  arguments.finish();

  uint64_t count = 2 * bytes / (min + max);
  bench::Table<uint64_t*> objects(count);
  bench::Table<uint32_t> sizes(count);
  bench::Random random(1);
  for (uint32_t& size : sizes) size = random.between(min, max);

  bench::Team team;
  bench::Crew producer(1);
  bench::Crew others(threads);
  auto fill = [&](uint64_t first, uint64_t step) {
    for (uint64_t i = first; i < count; i += step) {
      objects[i] = static_cast<uint64_t*>(bench::allocate(sizes[i]));
      std::memset(objects[i], 0x5A, sizes[i]);
      *objects[i] = i;
    }
  };
  auto empty = [&](uint64_t first, uint64_t step) {
    for (uint64_t i = first; i < count; i += step) {
      if (*objects[i] != i) bench::fail("object %" PRIu64 " was overwritten", i);
      bench::release(objects[i]);
    }
  };
  uint64_t start = 0;
  uint64_t full = 0;
  uint64_t again = 0;
  double seconds = team.run_here([&] {
    start = bench::Residence::now().rss;
    producer.run([&](size_t) { fill(0, 1); });
    full = bench::Residence::now().rss;
    others.run([&](size_t index) { empty(index, threads); });
    bench::sleep_ms(quiet_ms);
    others.run([&](size_t index) { fill(index, threads); });
    again = bench::Residence::now().rss;
  });
  others.run([&](size_t index) { empty(index, threads); });
  bench::Result("sleeping_producer", seconds, 2 * count, team)
      .live(bytes)
      .number("first_kib", static_cast<double>(full - start))
      .number("grown_kib", static_cast<double>(again > full ? again - full : 0))
      .word("mode", "waiting")
      .print();
}
