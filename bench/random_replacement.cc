// A table of live objects in which a random one is freed and replaced by one of a random size.
//
// Source: the core of larson (Larson and Krishnan, "Memory Allocation for Long-Running Server
// Applications", ISMM 1998) with one thread and no hand-over. By default 20 000 objects of
// 8..507 bytes, so that the live set exceeds the first-level cache but not the second.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t slots = arguments.number("slots", 20'000, 1, 100'000'000);
  uint64_t rounds = arguments.number("rounds", 20'000'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 8, 8, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 507, min, 1 << 20));
  arguments.finish();

  bench::Table<uint64_t*> table(slots);
  bench::Team team;
  bench::Random random(1);
  auto fill = [&](uint32_t at) {
    table[at] = static_cast<uint64_t*>(bench::allocate(random.between(min, max)));
    *table[at] = at;
  };
  double seconds = team.run_here([&] {
    for (uint32_t i = 0; i < slots; i++) fill(i);
    for (uint64_t i = 0; i < rounds; i++) {
      uint32_t at = random.below(static_cast<uint32_t>(slots));
      if (*table[at] != at) bench::fail("object in slot %u was overwritten", at);
      bench::release(table[at]);
      fill(at);
    }
    for (uint32_t i = 0; i < slots; i++) {
      if (*table[i] != i) bench::fail("object in slot %u was overwritten", i);
      bench::release(table[i]);
    }
  });
  bench::Result("random_replacement", seconds, rounds + slots, team)
      .live(slots * (min + max) / 2)
      .print();
}
