// Threads that live briefly: each allocates a few objects of mixed sizes, frees what the thread
// before it left, leaves its own to the next, and ends.
//
// Source: thread-per-request servers; it measures what an allocator does at a thread's first
// allocation and at its exit, and shows heaps that are never taken up again in the peak memory. An
// operation is one thread.
#include "common.h"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("count", 20'000);
  uint64_t objects = arguments.number("objects", 50, 1, 1'000'000);
  arguments.finish();

  bench::Team team;
  bench::Table<uint64_t*> left(objects);
  uint64_t checked = 0;
  double seconds = team.run_here([&] {
    for (uint64_t t = 0; t < count; t++) {
      // Joined at once: one thread at a time, on the CPU of the thread that started it.
      std::thread([&] {
        for (uint64_t i = 0; i < objects; i++) {
          if (left[i] != nullptr) {
            if (*left[i] != (t - 1) * objects + i) bench::fail("an object was overwritten");
            checked++;
            bench::release(left[i]);
          }
          left[i] = static_cast<uint64_t*>(bench::allocate(16 + i * 37 % 1000));
          *left[i] = t * objects + i;
        }
      }).join();
    }
  });
  for (uint64_t* p : left) bench::release(p);
  if (checked != (count - 1) * objects) bench::fail("%" PRIu64 " objects checked", checked);
  bench::Result("thread_churn", seconds, count, team).word("mode", "waiting").print();
}
