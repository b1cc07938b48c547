// Threads with unequal loads that keep some objects to their end, drop others soon, and swap some
// with other threads; then all threads end, new ones start, and what was swapped lives on.
//
// Source: mstress, mimalloc's stress test, as mimalloc-bench describes it: a server's allocations,
// sizes in powers of two, objects that migrate between threads, some with long lives, and threads
// that are destroyed after each phase. Objects change hands in places that all threads share, by an
// atomic exchange: who puts one in takes out and owns what was there. Its first and its last word
// hold an object's size. An operation is one object.
#include <barrier>

#include "common.h"

namespace {

// A list that is large enough, in a part of a table.
struct List {
  uint64_t** objects;
  uint64_t length = 0;
  void push(uint64_t* p) { objects[length++] = p; }
};

uint64_t* make(bench::Random& random, uint64_t min, uint64_t max) {
  // Each power of two is half as likely as the one before; one object in a thousand is the largest.
  auto doublings = static_cast<unsigned>(__builtin_ctz(random.next() | 1u << 31));
  uint64_t size = random.below(1000) == 0 ? max : std::min(min << doublings, max);
  auto* p = static_cast<uint64_t*>(bench::allocate(size));
  p[0] = p[size / 8 - 1] = size;
  return p;
}

void drop(uint64_t* p, uint64_t max) {
  uint64_t size = p[0];
  if (size < 16 || size > max || size % 8 != 0 || p[size / 8 - 1] != size) {
    bench::fail("an object was overwritten");
  }
  p[0] = 0;
  bench::release(p);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 4, 1, 1000);
  uint64_t phases = arguments.number("phases", 60);
  uint64_t steps = arguments.number("steps", 10'000, 1, 10'000'000);
  uint64_t min = arguments.number("min", 16, 16, 1 << 20);
  uint64_t max = arguments.number("max", 32'768, min, 1 << 20);
  uint64_t places = arguments.number("places", 1000, 1, 1'000'000);
  arguments.finish();
  if (min % 8 != 0 || max % 8 != 0) bench::fail("--min and --max are multiples of 8");

  bench::Team team;
  // The thread of number i has i % 4 + 1 parts of work.
  bench::Table<uint64_t*> tables(threads * steps * 5);
  bench::Table<std::atomic<uint64_t*>> shared(places);
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  std::atomic<uint64_t> made{0};
  std::atomic<uint64_t> dropped{0};
  auto work = [&](size_t index, uint64_t phase) {
    bench::Random random(phase * threads + index + 1);
    uint64_t mine = steps * (index % 4 + 1);
    uint64_t count = mine;
    uint64_t gone = 0;
    List brief{&tables[index * steps * 5]};
    List kept{&tables[index * steps * 5 + steps * 4]};
    for (uint64_t i = 0; i < mine; i++) {
      (i % 8 == 0 ? kept : brief).push(make(random, min, max));
      if (brief.length == 0) continue;
      uint64_t*& chosen = brief.objects[random.below(static_cast<uint32_t>(brief.length))];
      if (i % 4 == 0) {
        // Acquire and release: the taker reads what the maker wrote.
        auto& place = shared[random.below(static_cast<uint32_t>(places))];
        uint64_t* other = place.exchange(chosen, std::memory_order_acq_rel);
        count += other == nullptr;
        chosen = other != nullptr ? other : make(random, min, max);
      } else {
        drop(chosen, max);
        chosen = brief.objects[--brief.length];
        gone++;
      }
    }
    for (const List& list : {brief, kept}) {
      for (uint64_t i = 0; i < list.length; i++) drop(list.objects[i], max);
      gone += list.length;
    }
    made.fetch_add(count);
    dropped.fetch_add(gone);
  };
  double seconds = team.run(threads, [&](size_t index) {
    for (uint64_t phase = 0; phase < phases; phase++) {
      std::thread([&] {
        bench::pin(team.cpu_of(index));
        work(index, phase);
      }).join();
      together.arrive_and_wait();
    }
  });
  for (auto& place : shared) {
    if (uint64_t* p = place.load()) {
      drop(p, max);
      dropped++;
    }
  }
  if (made != dropped) bench::fail("%" PRIu64 " of %" PRIu64, dropped.load(), made.load());
  // The threads of a team wait for those of the phases.
  bench::Result("mstress", seconds, dropped, team).word("mode", "waiting").print();
}
