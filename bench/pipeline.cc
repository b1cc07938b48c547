// One thread allocates 64-byte objects and passes them through a bounded ring to another, which
// frees them.
//
// Source: the pipeline stage of the producer/consumer literature (BatchIt, ISMM 2024, section 1),
// with the bounded single-producer single-consumer ring that such programs use. It has two modes
// that differ several-fold: when the consumer is the slower side the ring stays full and both sides
// work on runs of elements; when the producer is slower the ring stays empty and every element
// crosses between the CPUs alone. The result names the mode by counting on which side elements had
// to wait; only runs of one mode compare. --producer-pause and --consumer-pause slow down a side by
// that many spin-wait hints an element, to steer into a mode; below four the sides are near
// balance, and which one waits depends on the allocator. --read=1 lets the consumer read every
// element, as a pipeline's stage would, and not one in 64.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("count", 20'000'000);
  uint64_t capacity = arguments.number("ring", 1024, 1, 1 << 20);
  uint64_t size = arguments.number("size", 64, 8, 1 << 20);
  uint64_t producer_pause = arguments.number("producer-pause", 0, 0);
  uint64_t consumer_pause = arguments.number("consumer-pause", 0, 0);
  bool read_all = arguments.number("read", 0, 0, 1) != 0;
  arguments.finish();
  if ((capacity & (capacity - 1)) != 0) bench::fail("--ring is a power of two");

  bench::Team team;
  bool spin = team.fits(2);
  bench::Table<uint64_t*> ring(capacity);
  alignas(128) std::atomic<uint64_t> head{0};
  alignas(128) std::atomic<uint64_t> tail{0};
  auto wait = [&] {
    if (spin) {
      bench::pause();
    } else {
      std::this_thread::yield();
    }
  };
  alignas(128) uint64_t found_full = 0;
  alignas(128) uint64_t found_empty = 0;
  double seconds = team.run(2, [&](size_t index) {
    if (index == 0) {
      uint64_t known_head = 0;
      uint64_t waits = 0;
      for (uint64_t i = 0; i < count; i++) {
        for (uint64_t w = 0; w < producer_pause; w++) bench::pause();
        auto* p = static_cast<uint64_t*>(bench::allocate(size));
        *p = i;
        if (i - known_head == capacity) {
          known_head = head.load(std::memory_order_acquire);
          if (i - known_head == capacity) {
            waits++;
            while (i - (known_head = head.load(std::memory_order_acquire)) == capacity) wait();
          }
        }
        ring[i & (capacity - 1)] = p;
        tail.store(i + 1, std::memory_order_release);
      }
      found_full = waits;
    } else {
      uint64_t known_tail = 0;
      uint64_t waits = 0;
      for (uint64_t i = 0; i < count; i++) {
        if (i == known_tail) {
          known_tail = tail.load(std::memory_order_acquire);
          if (i == known_tail) {
            waits++;
            while ((known_tail = tail.load(std::memory_order_acquire)) == i) wait();
          }
        }
        uint64_t* p = ring[i & (capacity - 1)];
        head.store(i + 1, std::memory_order_release);
        if ((read_all || i % 64 == 0) && *p != i)
          bench::fail("element %" PRIu64 " was overwritten", i);
        bench::release(p);
        for (uint64_t w = 0; w < consumer_pause; w++) bench::pause();
      }
      found_empty = waits;
    }
  });
  if (head != count || tail != count) bench::fail("elements were lost");
  bench::Result("pipeline", seconds, count, team)
      .number("found_full", static_cast<double>(found_full))
      .number("found_empty", static_cast<double>(found_empty))
      .word("mode", found_full > found_empty ? "full" : "empty")
      .print();
}
