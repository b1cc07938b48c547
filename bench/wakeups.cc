// Very many threads, each of which wakes up now and then, allocates some objects of mixed sizes,
// frees them and sleeps again: what does the allocator take, in time and memory, for threads that
// nearly always sleep?
//
// Source: servers with a thread for each connection or timer, as for many_threads. The threads wake
// one after another, evenly spread over the period; an operation is one wake. CPU time is that of
// the whole process, threads of the allocator's own included.
#include <time.h>

#include "crowd.h"

namespace {

constexpr uint64_t kMostObjects = 256;
constexpr uint64_t kMillisecond = 1'000'000;

struct Plan {
  uint64_t objects;
  uint64_t period_ns;
  uint64_t begin;  // by the monotonic clock
  uint64_t end;
};

struct Work {
  const Plan* plan;
  uint64_t first;  // wake
  uint64_t wakes = 0;
  pthread_t thread = {};
};

uint64_t clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_until(uint64_t ns) {
  const timespec at = {static_cast<time_t>(ns / 1'000'000'000),
                       static_cast<long>(ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
  }
}

void use_memory(uint64_t count, uint64_t mark) {
  uint64_t* objects[kMostObjects];
  for (uint64_t i = 0; i < count; i++) {
    objects[i] = static_cast<uint64_t*>(
        bench::allocate(bench::kMixedSizes[i % std::size(bench::kMixedSizes)]));
    *objects[i] = mark + i;
  }
  for (uint64_t i = 0; i < count; i++) {
    if (*objects[i] != mark + i) bench::fail("an object was overwritten");
    bench::release(objects[i]);
  }
}

void* thread_main(void* argument) {
  Work& work = *static_cast<Work*>(argument);
  const Plan& plan = *work.plan;
  for (uint64_t next = work.first; next < plan.end; next += plan.period_ns) {
    sleep_until(next);
    use_memory(plan.objects, next);
    work.wakes++;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  const uint64_t count = arguments.number("threads", 2000, 1, 1'000'000);
  const uint64_t period_ms = arguments.number("period-ms", 700, 1, 3'600'000);
  const uint64_t run_ms = arguments.number("run-ms", 10'000, 1, 3'600'000);
  Plan plan = {};
  plan.objects = arguments.number("objects", 100, 1, kMostObjects);
  arguments.finish();
  plan.period_ns = period_ms * kMillisecond;

  bench::Team team;
  bench::Table<Work> threads(count);
  const double seconds = team.run_here([&] {
    // The first wake when all are there; as fast as threads start.
    plan.begin = clock_ns() + count * 100'000;
    plan.end = plan.begin + run_ms * kMillisecond;
    bench::start_crowd(count, [&](uint64_t i, const pthread_attr_t* attributes) {
      threads[i].plan = &plan;
      threads[i].first = plan.begin + plan.period_ns * i / count;
      return pthread_create(&threads[i].thread, attributes, thread_main, &threads[i]);
    });
    for (const Work& work : threads) pthread_join(work.thread, nullptr);
  });
  uint64_t wakes = 0;
  uint64_t planned = 0;
  for (const Work& work : threads) {
    wakes += work.wakes;
    if (work.first < plan.end) planned += (plan.end - work.first - 1) / plan.period_ns + 1;
  }
  if (wakes != planned) bench::fail("%" PRIu64 " wakes of %" PRIu64, wakes, planned);
  bench::Result("wakeups", seconds, wakes, team).word("mode", "waiting").print();
}
