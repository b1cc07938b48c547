// Allocates many objects, frees all but a few, and then does nothing at all for some seconds: what
// does the process keep?
//
// Source: the churn that users measure idle memory with (zackees/mimalloc-pprof issue 334: 150 000
// objects of 512 bytes, 100 000 of 1 KiB, 50 000 of 2 KiB, one in twenty kept, ten quiet seconds).
// --by says who frees: the thread that allocated them (self), --threads others that sleep from then
// on (others), or such threads that end after it (ended). --size and --count replace the three
// sizes by one; with --keep=100 it shows whether whole pages that lie between survivors are given
// back. Every object is written in full. The result has the memory over time, and the pages that
// the survivors stand on: nobody can keep less than those. An operation is one object; the time
// means nothing.
#include "memory.h"

namespace {

struct Group {
  uint64_t size;
  uint64_t count;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t size = arguments.number("size", 0, 0, 4096);
  uint64_t only_count = arguments.number("count", 100'000, 1, 100'000'000);
  uint64_t keep = arguments.number("keep", 20, 1);
  uint64_t quiet_ms = arguments.number("quiet-ms", 10'000, 1, 3'600'000);
  uint64_t step_ms = arguments.number("step-ms", 500, 1, 3'600'000);
  std::string by = arguments.word("by", "self");
  uint64_t threads = arguments.number("threads", 4, 1, 1000);
  arguments.finish();
  if (by != "self" && by != "others" && by != "ended") {
    bench::fail("--by is self, others or ended");
  }
  if (size != 0 && size < sizeof(uint64_t)) bench::fail("--size is 0, or 8 and more");

  std::vector<Group> groups{{512, 150'000}, {1024, 100'000}, {2048, 50'000}};
  if (size != 0) groups = {{size, only_count}};
  uint64_t count = 0;
  uint64_t bytes = 0;
  for (const Group& group : groups) {
    count += group.count;
    bytes += group.count * group.size;
  }

  bench::Team team;
  bench::MemoryLog memory;
  bench::Table<uint64_t*> objects(count);
  bench::Table<uint32_t> sizes(count);
  bench::Crew others(by == "self" ? 0 : threads);
  // Those of one slab are freed by all of them.
  auto free_share = [&](uint64_t first, uint64_t step) {
    for (uint64_t i = first; i < count; i += step) {
      if (i % keep == 0) continue;
      if (*objects[i] != i) bench::fail("object %" PRIu64 " was overwritten", i);
      bench::release(objects[i]);
      objects[i] = nullptr;
    }
  };
  double seconds = team.run_here([&] {
    memory.sample("start");
    uint64_t at = 0;
    for (const Group& group : groups) {
      for (uint64_t i = 0; i < group.count; i++, at++) {
        sizes[at] = static_cast<uint32_t>(group.size);
        objects[at] = static_cast<uint64_t*>(bench::allocate(group.size));
        std::memset(objects[at], 0x5A, group.size);
        *objects[at] = at;
      }
    }
    memory.sample("peak");
    if (by == "self") {
      free_share(0, 1);
    } else {
      others.run([&](size_t index) { free_share(index, threads); });
      if (by == "ended") others.dismiss();
    }
    memory.sample("freed");
    for (uint64_t waited = 0; waited < quiet_ms; waited += step_ms) {
      bench::sleep_ms(std::min(step_ms, quiet_ms - waited));
      memory.sample("quiet");
    }
  });
  uint64_t kept_bytes = 0;
  for (uint64_t i = 0; i < count; i++) kept_bytes += objects[i] == nullptr ? 0 : sizes[i];
  uint64_t pages = bench::pages_kib((count + keep - 1) / keep, [&](size_t i) {
    return std::pair<void*, size_t>(objects[i * keep], sizes[i * keep]);
  });
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (objects[i] == nullptr) continue;
    const auto* object = reinterpret_cast<const unsigned char*>(objects[i]);
    if (*objects[i] != i || (sizes[i] > sizeof i && object[sizes[i] - 1] != 0x5A)) {
      bench::fail("survivor %" PRIu64 " was overwritten", i);
    }
    bench::release(objects[i]);
    kept++;
  }
  if (kept != (count + keep - 1) / keep) bench::fail("%" PRIu64 " objects survived", kept);
  bench::Result("idle_return", seconds, count, team)
      .live(bytes)
      .number("survivor_bytes", static_cast<double>(kept_bytes))
      .number("survivor_pages_kib", static_cast<double>(pages))
      .json("memory", memory.json())
      .word("mode", "waiting")
      .print();
}
