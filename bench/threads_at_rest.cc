// Threads that allocate one after the other and then sleep: what does each keep?
//
// Source: bench/ledger.toml. Unlike many_threads, this repeats exactly: each thread waits for its
// turn, and memory is asked for while all stand still. Each thread keeps one object of each of five
// sizes, written in full, and frees them, or of the first --sizes of these; or it allocates and
// frees
// --bytes in objects of mixed sizes.
// The stacks are touched before, so that they count for nothing.
#include <semaphore.h>

#include <utility>

#include "crowd.h"
#include "memory.h"

namespace {

constexpr size_t kSizes[] = {16, 100, 500, 2000, 10000};

struct Shared {
  uint64_t bytes;
  uint64_t sizes;
  std::atomic<uint64_t> turn{0};
  sem_t done;
};

struct Worker {
  Shared* shared;
  sem_t go;
  pthread_t thread;
  void* kept[std::size(kSizes)];
};

void take_turn(Worker& worker) {
  while (sem_wait(&worker.go) != 0) {
  }
}

void touch_stack() {
  char below[16 << 10];
  std::memset(below, 0x5A, sizeof below);
  bench::escape(below);
}

void work_mixed(uint64_t bytes) {
  void* first = nullptr;
  for (uint64_t held = 0, i = 0; held < bytes; i++) {
    const size_t size = bench::kMixedSizes[i % std::size(bench::kMixedSizes)];
    void* p = bench::allocate(size);
    *static_cast<void**>(p) = first;
    first = p;
    held += size;
  }
  while (first != nullptr) {
    void* next = *static_cast<void**>(first);
    bench::release(first);
    first = next;
  }
}

void* thread_main(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  touch_stack();
  sem_post(&worker.shared->done);
  take_turn(worker);
  if (worker.shared->bytes != 0) {
    work_mixed(worker.shared->bytes);
  } else {
    for (size_t i = 0; i < worker.shared->sizes; i++) {
      worker.kept[i] = bench::allocate(kSizes[i]);
      std::memset(worker.kept[i], 0x5A, kSizes[i]);
    }
  }
  sem_post(&worker.shared->done);
  take_turn(worker);
  for (void*& p : worker.kept) {
    if (p != nullptr) bench::release(std::exchange(p, nullptr));
  }
  sem_post(&worker.shared->done);
  take_turn(worker);
  return nullptr;
}

uint64_t anonymous_kib() { return bench::ProcFile("/proc/self/smaps_rollup").field("\nAnonymous"); }

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  const uint64_t count = arguments.number("threads", 1000, 1, 100'000);
  Shared shared;
  shared.bytes = arguments.number("bytes", 0, 0, 1 << 30);
  shared.sizes = arguments.number("sizes", std::size(kSizes), 1, std::size(kSizes));
  arguments.finish();
  sem_init(&shared.done, 0, 0);
  bench::pin(bench::allowed_cpus().front());
  bench::Table<Worker> workers(count);
  bench::start_crowd(count, [&](uint64_t i, const pthread_attr_t* attributes) {
    workers[i].shared = &shared;
    sem_init(&workers[i].go, 0, 0);
    return pthread_create(&workers[i].thread, attributes, thread_main, &workers[i]);
  });
  const auto wait_for_one = [&] {
    while (sem_wait(&shared.done) != 0) {
    }
  };
  const auto all_take_turns = [&] {
    for (Worker& each : workers) {
      sem_post(&each.go);
      wait_for_one();
    }
    return anonymous_kib();
  };
  for (uint64_t i = 0; i < count; i++) wait_for_one();
  const uint64_t before = anonymous_kib();
  const uint64_t kept = all_take_turns();
  const uint64_t freed = all_take_turns();
  std::printf("{\"bench\": \"threads_at_rest\", \"threads\": %" PRIu64 ", \"kept_kib\": %" PRIu64
              ", \"freed_kib\": %" PRIu64 "}\n",
              count, kept - before, freed - before);
  std::fflush(stdout);
  _exit(0);
}
