// Allocates a batch of objects of one size, then frees them in reverse order (--order=lifo) or in
// the order of allocation (--order=fifo), again and again over sizes 16..128.
//
// Source: the LIFO and FIFO patterns of stack-like and queue-like programs; the measurements that
// chose the thread cache's capacity used them with 1000 objects. In --order=fifo with several
// threads and a single size it is linux-scalability (Lever and Boreham, "malloc() Performance in a
// Multithreaded Linux Environment", USENIX 2000) as Hoard's suite and the a3alloc report (section
// 2.4) run it: every thread calls malloc for a long while, then only free.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  std::string order = arguments.word("order", "lifo");
  uint64_t count = arguments.number("count", 1000, 1, 10'000'000);
  uint64_t rounds = arguments.number("rounds", 40'000);
  uint64_t min = arguments.number("min", 16, 8, 1 << 20);
  uint64_t max = arguments.number("max", 128, min, 1 << 20);
  uint64_t threads = arguments.number("threads", 1, 1, 1000);
  arguments.finish();
  if (order != "lifo" && order != "fifo") bench::fail("--order is lifo or fifo");

  bool lifo = order == "lifo";
  bench::Table<uint64_t*> tables(threads * count);
  bench::Team team;
  uint64_t sizes = (max - min) / 16 + 1;
  std::atomic<uint64_t> freed{0};
  auto body = [&](size_t index) {
    uint64_t** objects = &tables[index * count];
    for (uint64_t round = 0; round < rounds; round++) {
      // A few rounds of each size before the next, as a program's phases have.
      uint64_t size = min + round / 8 % sizes * 16;
      for (uint64_t i = 0; i < count; i++) {
        objects[i] = static_cast<uint64_t*>(bench::allocate(size));
        *objects[i] = round + i;
      }
      for (uint64_t i = 0; i < count; i++) {
        uint64_t at = lifo ? count - 1 - i : i;
        if (*objects[at] != round + at) bench::fail("object %" PRIu64 " was overwritten", at);
        bench::release(objects[at]);
      }
      freed.fetch_add(count, std::memory_order_relaxed);
    }
  };
  double seconds = threads == 1 ? team.run_here([&] { body(0); }) : team.run(threads, body);
  if (freed != threads * rounds * count) bench::fail("%" PRIu64 " objects freed", freed.load());
  bench::Result(lifo ? "lifo" : "fifo", seconds, freed, team).live(threads * count * max).print();
}
