// Very many threads, each of which allocates 64 KiB in objects of mixed sizes, frees them and
// sleeps: what does the allocator keep for each?
//
// Source: servers with pools of thousands of threads, whose users find the memory again in the
// caches of threads that sleep (mimalloc issue 333, jemalloc issue 2688). The sample before the
// first thread starts is the base; stacks are small, and the same under every allocator. All
// threads exist at the same time. With --every-class=1 each also has one object, written in full,
// of every size from 16 bytes to 32 KiB that an allocator may have a class for: four to a doubling.
// An operation is one thread; the time means nothing.
#include <condition_variable>
#include <mutex>

#include "crowd.h"
#include "memory.h"

namespace {

struct Shared {
  uint64_t bytes;
  bool every_class;
  std::atomic<uint64_t> finished{0};
  std::atomic<uint64_t> freed{0};
  std::mutex lock;
  std::condition_variable end;
  bool ended = false;
};

constexpr uint64_t kLargestClass = 32 << 10;

// Sizes four to a doubling, 16 bytes apart at least.
uint64_t next_class(uint64_t size) {
  uint64_t power = 64;
  while (2 * power <= size) power *= 2;
  return size + power / 4;
}

void touch_every_class() {
  void* objects[64];
  size_t count = 0;
  for (uint64_t size = 16; size <= kLargestClass; size = next_class(size)) {
    objects[count] = bench::allocate(size);
    std::memset(objects[count++], 0x5A, size);
  }
  while (count != 0) bench::release(objects[--count]);
}

// On the stack only what is needed: what lies there counts as memory of the thread.
void work(Shared& shared) {
  struct Link {
    Link* next;
    uint64_t number;
  };
  if (shared.every_class) touch_every_class();
  Link* first = nullptr;
  uint64_t count = 0;
  for (uint64_t held = 0; held < shared.bytes; count++) {
    uint64_t size = bench::kMixedSizes[count % std::size(bench::kMixedSizes)];
    auto* link = static_cast<Link*>(bench::allocate(size));
    *link = {first, count};
    first = link;
    held += size;
  }
  for (uint64_t left = count; left > 0; left--) {
    Link* link = first;
    if (link == nullptr || link->number != left - 1) bench::fail("an object was overwritten");
    first = link->next;
    bench::release(link);
  }
  shared.freed.fetch_add(count);
}

void* thread_main(void* argument) {
  Shared& shared = *static_cast<Shared*>(argument);
  work(shared);
  shared.finished.fetch_add(1);
  std::unique_lock<std::mutex> guard(shared.lock);
  shared.end.wait(guard, [&] { return shared.ended; });
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("threads", 10'000, 1, 1'000'000);
  Shared shared;
  shared.bytes = arguments.number("bytes", 64 << 10, 16, 1 << 30);
  shared.every_class = arguments.number("every-class", 0, 0, 1) != 0;
  uint64_t quiet_ms = arguments.number("quiet-ms", 1000, 1, 3'600'000);
  arguments.finish();

  bench::Team team;
  bench::MemoryLog memory;
  bench::Table<pthread_t> threads(count);
  memory.sample("start");
  double seconds = team.run_here([&] {
    bench::start_crowd(count, [&](uint64_t i, const pthread_attr_t* attributes) {
      return pthread_create(&threads[i], attributes, thread_main, &shared);
    });
    while (shared.finished.load() != count) bench::sleep_ms(1);
  });
  memory.sample("freed");
  bench::sleep_ms(quiet_ms);
  memory.sample("quiet");
  {
    std::lock_guard<std::mutex> guard(shared.lock);
    shared.ended = true;
  }
  shared.end.notify_all();
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  memory.sample("joined");
  if (shared.freed.load() % count != 0 || shared.freed.load() == 0)
    bench::fail("objects were lost");
  bench::Result("many_threads", seconds, count, team)
      .number("objects", static_cast<double>(shared.freed.load()))
      .json("memory", memory.json())
      .word("mode", "waiting")
      .print();
}
