// Pairs of threads: each allocates an object, gives it to the other, takes one from the other and
// frees that.
//
// Source: the symmetric workload of the snmalloc paper (ISMM 2019, section 3.1, figure 4), the one
// that thread-caching allocators are made for. Every object freed was allocated by the partner.
// Each side has --window objects under way, so that the row does not measure the latency of one
// hand-over.
#include <deque>

#include "common.h"

namespace {

constexpr uint64_t kMost = 4096;

// One direction; single producer, single consumer.
struct alignas(128) Channel {
  std::atomic<uint64_t> sent{0};
  alignas(128) uint64_t taken = 0;
  uint64_t known = 0;
  alignas(128) uint64_t* slots[kMost];

  // Never full: at most window objects are under way, and the partner answers each.
  void send(uint64_t* p) {
    uint64_t at = sent.load(std::memory_order_relaxed);
    slots[at % kMost] = p;
    sent.store(at + 1, std::memory_order_release);
  }
  uint64_t* take(bool spin) {
    while (taken == known) {
      known = sent.load(std::memory_order_acquire);
      if (taken != known) break;
      if (spin) {
        bench::pause();
      } else {
        std::this_thread::yield();
      }
    }
    return slots[taken++ % kMost];
  }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t threads = arguments.number("threads", 2, 2, 1000);
  uint64_t count = arguments.number("count", 10'000'000);
  uint64_t window = arguments.number("window", 256, 1, kMost / 2);
  uint64_t size = arguments.number("size", 64, 8, 1 << 20);
  arguments.finish();
  if (threads % 2 != 0) bench::fail("--threads is even");

  bench::Team team;
  bool spin = team.fits(threads);
  std::deque<Channel> to(threads);
  std::atomic<uint64_t> freed{0};
  double seconds = team.run(threads, [&](size_t index) {
    Channel& in = to[index];
    Channel& out = to[index ^ 1];
    uint64_t started = 0;
    auto give = [&] {
      auto* p = static_cast<uint64_t*>(bench::allocate(size));
      *p = started++;
      out.send(p);
    };
    uint64_t ahead = window < count ? window : count;
    for (uint64_t i = 0; i < ahead; i++) give();
    for (uint64_t i = 0; i < count; i++) {
      uint64_t* p = in.take(spin);
      if (i % 64 == 0 && *p != i) bench::fail("object %" PRIu64 " was overwritten", i);
      bench::release(p);
      if (started < count) give();
    }
    freed.fetch_add(count);
  });
  if (freed != threads * count) bench::fail("%" PRIu64 " objects freed", freed.load());
  bench::Result("symmetric_exchange", seconds, freed, team).print();
}
