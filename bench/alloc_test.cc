// Threads that each have a table of their own, draw a place of it and fill it if it is empty, or
// empty it. A few places are drawn often and most seldom, so that some objects are gone at once and
// others stay; most are small.
//
// Source: alloc-test of OLogN Technologies (ITHare, "Testing Memory Allocators: ptmalloc2 vs
// tcmalloc vs hoard vs jemalloc while trying to simulate real-world loads", 2018), as
// mimalloc-bench runs it: objects of up to 1 KiB, alloc-test1 with one thread and alloc-testN with
// many. Both laws are Pareto's: a fifth of the places gets four fifths of the draws, and a size
// twice as large is a quarter as dense. Every byte is written once.
#include <utility>

#include "common.h"
#include "power_law.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 1, 1, 1000);
  auto slots = static_cast<uint32_t>(arguments.number("slots", 50'000, 2, 1 << 24));
  uint64_t draws = arguments.number("draws", 12'000'000);
  auto min = static_cast<uint32_t>(arguments.number("min", 16, 16, 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 1024, min, 1 << 20));
  arguments.finish();

  struct Object {
    uint64_t stamp;
    uint64_t bytes;
  };
  // The part x of all places gets the part x^k of all draws: 0.2^k = 0.8.
  const double k = std::log(0.8) / std::log(0.2);
  bench::PowerLaw places(0, slots - 1, 1 - k);
  bench::PowerLaw sizes(min, max, 2);
  bench::Team team;
  bench::Table<Object*> tables(threads * slots);
  std::atomic<uint64_t> freed{0};
  std::atomic<uint64_t> allocated{0};
  std::atomic<uint64_t> most{0};
  double seconds = team.run(threads, [&](size_t index) {
    Object** table = &tables[index * slots];
    bench::Random random(index + 1);
    uint64_t mine = 0;
    uint64_t given = 0;
    uint64_t live = 0;
    uint64_t peak = 0;
    auto stamp = [&](uint32_t at) { return index << 32 | at; };
    auto empty = [&](uint32_t at) {
      Object* object = std::exchange(table[at], nullptr);
      if (object->stamp != stamp(at)) bench::fail("object in slot %u was overwritten", at);
      live -= object->bytes;
      bench::release(object);
      given++;
    };
    for (uint64_t i = 0; i < draws; i++) {
      uint32_t at = places.draw(random);
      if (table[at] != nullptr) {
        empty(at);
        continue;
      }
      uint32_t size = sizes.draw(random);
      table[at] = static_cast<Object*>(std::memset(bench::allocate(size), 1, size));
      *table[at] = {stamp(at), size};
      live += size;
      peak = std::max(peak, live);
      mine++;
    }
    for (uint32_t at = 0; at < slots; at++) {
      if (table[at] != nullptr) empty(at);
    }
    allocated.fetch_add(mine);
    freed.fetch_add(given);
    most.fetch_add(peak);
  });
  if (freed != allocated) {
    bench::fail("%" PRIu64 " objects freed of %" PRIu64, freed.load(), allocated.load());
  }
  bench::Result("alloc_test", seconds, freed, team).live(most).print();
}
