// Every thread allocates objects of random sizes that live for a random number of steps: the frees
// fall between the allocations, in another order, and leave holes.
//
// Source: phong of Hoard's suite, after the simulation with which Vo measured vmalloc ("Vmalloc: A
// General and Efficient Memory Allocator", Software: Practice and Experience 1996); the a3alloc
// report runs it with one to eight threads (section 3.5). A step frees the objects whose time is
// over and allocates one. Objects with the same end are linked through their own memory.
#include "common.h"

namespace {

struct Object {
  Object* next;
  uint64_t end;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 1, 1000);
  uint64_t steps = arguments.number("steps", 4'000'000);
  auto life = static_cast<uint32_t>(arguments.number("life", 20'000, 1, 100'000'000));
  auto min = static_cast<uint32_t>(arguments.number("min", 16, sizeof(Object), 1 << 20));
  auto max = static_cast<uint32_t>(arguments.number("max", 512, min, 1 << 20));
  arguments.finish();

  bench::Team team;
  uint64_t share = (steps + threads - 1) / threads;
  // What ends at step k stands at k modulo this; no object lives longer.
  uint64_t places = uint64_t{life} + 1;
  bench::Table<Object*> tables(threads * places);
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(threads, [&](size_t index) {
    Object** ending = &tables[index * places];
    bench::Random random(index + 1);
    uint64_t mine = 0;
    for (uint64_t k = 0; k < share + places; k++) {
      Object*& due = ending[k % places];
      while (due != nullptr) {
        Object* object = due;
        if (object->end != k) bench::fail("an object was overwritten");
        due = object->next;
        bench::release(object);
        mine++;
      }
      if (k >= share) continue;
      auto* object = static_cast<Object*>(bench::allocate(random.between(min, max)));
      object->end = k + random.between(1, life);
      Object*& list = ending[object->end % places];
      object->next = list;
      list = object;
    }
    freed.fetch_add(mine);
  });
  if (freed != threads * share) bench::fail("%" PRIu64 " objects freed", freed.load());
  // An object lives for half of the longest life.
  bench::Result("phong", seconds, freed, team)
      .live(threads * std::min<uint64_t>(share, life / 2) * (min + max) / 2)
      .print();
}
