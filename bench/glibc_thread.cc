// Threads that each have a table of their own, free what is in a random place of it and allocate
// anew; most objects are small, and a few large.
//
// Source: bench-malloc-thread of glibc's benchtests, which is glibc-thread in mimalloc-bench: 1024
// places a thread, sizes of 4 to 32 768 bytes by an inverse-square law. No object goes to another
// thread. A fixed amount of work, not of time.
#include "common.h"
#include "power_law.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  auto slots = static_cast<uint32_t>(arguments.number("slots", 1024, 1, 1 << 24));
  uint64_t rounds = arguments.number("rounds", 10'000'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 4, 4, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 32'768, min, 1 << 20));
  arguments.finish();

  bench::PowerLaw sizes(min, max, 2);
  bench::Team team;
  bench::Table<uint32_t*> tables(threads * slots);
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(threads, [&](size_t index) {
    uint32_t** table = &tables[index * slots];
    bench::Random random(index + 1);
    uint64_t mine = 0;
    auto stamp = [&](uint32_t at) { return static_cast<uint32_t>(index) << 24 ^ at; };
    auto empty = [&](uint32_t at) {
      if (table[at] == nullptr) return;
      if (*table[at] != stamp(at)) bench::fail("object in slot %u was overwritten", at);
      bench::release(table[at]);
      mine++;
    };
    for (uint64_t i = 0; i < rounds; i++) {
      uint32_t at = random.below(slots);
      empty(at);
      table[at] = static_cast<uint32_t*>(bench::allocate(sizes.draw(random)));
      *table[at] = stamp(at);
    }
    for (uint32_t at = 0; at < slots; at++) empty(at);
    freed.fetch_add(mine);
  });
  if (freed != threads * rounds) bench::fail("%" PRIu64 " objects freed", freed.load());
  bench::Result("glibc_thread", seconds, freed, team)
      .live(static_cast<uint64_t>(static_cast<double>(threads * slots) * sizes.mean()))
      .print();
}
