// Many threads replace objects of a live set of their own; what they replace goes through small
// bounded queues to one thread that never allocates and only frees.
//
// Source: mimalloc issue 1364, where a process with 370 MiB alive, in 16 threads' objects of 592
// bytes, came to 1.8 GiB. The most that is alive at a time is bounded by the live sets and the
// queues: peak memory divided by it is the point of this program. An operation is one object.
#include <deque>

#include "common.h"

namespace {

constexpr uint64_t kRing = 256;

// One producer's way to the reclaimer.
struct alignas(128) Ring {
  std::atomic<uint64_t> sent{0};
  alignas(128) std::atomic<uint64_t> taken{0};
  uint64_t* slots[kRing];

  void send(uint64_t* p) {
    uint64_t at = sent.load(std::memory_order_relaxed);
    while (at - taken.load(std::memory_order_acquire) == kRing) std::this_thread::yield();
    slots[at % kRing] = p;
    sent.store(at + 1, std::memory_order_release);
  }
  // Frees what has arrived; how many objects that was.
  uint64_t drain() {
    uint64_t from = taken.load(std::memory_order_relaxed);
    uint64_t to = sent.load(std::memory_order_acquire);
    for (uint64_t at = from; at != to; at++) bench::release(slots[at % kRing]);
    taken.store(to, std::memory_order_release);
    return to - from;
  }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t producers = arguments.number("producers", 16, 1, 1000);
  uint64_t slots = arguments.number("slots", 40'960, 1, UINT32_MAX);
  uint64_t size = arguments.number("size", 592, 8, 1 << 20);
  uint64_t rounds = arguments.number("rounds", 80'000);
  arguments.finish();

  bench::Team team;
  bench::Table<uint64_t*> objects(producers * slots);
  std::deque<Ring> rings(producers);
  std::atomic<uint64_t> producing{producers};
  uint64_t freed = 0;
  double seconds = team.run(producers + 1, [&](size_t index) {
    if (index == producers) {
      for (bool last_round = false;;) {
        uint64_t count = 0;
        for (Ring& ring : rings) count += ring.drain();
        freed += count;
        if (count != 0) continue;
        if (last_round) break;
        last_round = producing.load(std::memory_order_acquire) == 0;
        std::this_thread::yield();
      }
      return;
    }
    uint64_t** mine = &objects[index * slots];
    auto fill = [&](uint64_t at) {
      mine[at] = static_cast<uint64_t*>(bench::allocate(size));
      std::memset(mine[at], 0x5A, size);
      *mine[at] = at;
    };
    for (uint64_t at = 0; at < slots; at++) fill(at);
    bench::Random random(index + 1);
    for (uint64_t i = 0; i < rounds; i++) {
      uint64_t at = random.below(static_cast<uint32_t>(slots));
      if (*mine[at] != at) bench::fail("object %" PRIu64 " was overwritten", at);
      rings[index].send(mine[at]);
      fill(at);
    }
    producing.fetch_sub(1, std::memory_order_release);
  });
  if (freed != producers * rounds) bench::fail("%" PRIu64 " objects freed", freed);
  for (uint64_t i = 0; i < producers * slots; i++) {
    if (*objects[i] != i % slots) bench::fail("object %" PRIu64 " was overwritten", i % slots);
    bench::release(objects[i]);
  }
  bench::Result("reclaimer", seconds, producers * (slots + rounds), team)
      .live(producers * (slots + kRing + 1) * size)
      .print();
}
