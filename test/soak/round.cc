#include "soak/round.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <string>
#include <thread>

#include "loft/loft.h"
#include "storm/support.h"

namespace soak {
namespace {

using storm::advance;

constexpr size_t kSlots = 4096;
constexpr unsigned kSteps = 6;
constexpr unsigned kMostThreads = 6;
constexpr unsigned kMostPrinted = 20;

// Every object of the round hangs here. It is stamped before the exchange that publishes it
// (release), and read after the one that takes it (acquire), so whoever takes it sees its words.
std::array<std::atomic<void*>, kSlots> slots;
std::atomic<unsigned> faults;
// Objects made, for ids that no two objects share. Nothing is ordered by it.
std::atomic<uint64_t> made;

void expect(bool good, const char* what) {
  if (good) return;
  // Only ever read after the threads have been joined. What goes wrong once may go wrong for ever.
  const unsigned before = faults.fetch_add(1, std::memory_order_relaxed);
  if (before < kMostPrinted) fprintf(stderr, "soak: %s\n", what);
}

struct Stream {
  uint64_t state;
  uint64_t below(uint64_t bound) { return (advance(state) >> 33) % bound; }
};

// Each step draws its sizes from one of these.
struct Sizes {
  size_t least, most;
};
constexpr Sizes kSizes[] = {
    {16, 128}, {16, 1024}, {1024, 32 << 10}, {16 << 10, 512 << 10}, {256 << 10, 4 << 20}};

size_t draw(Stream& random, const Sizes& sizes) {
  // Now and then any size, so that classes meet.
  const Sizes& s = random.below(16) == 0 ? kSizes[random.below(3)] : sizes;
  return (s.least + random.below(s.most - s.least)) & ~size_t{7};
}

bool intact(const void* p) {
  return loft_malloc_usable_size(p) >= storm::size_of(p) &&
         storm::intact(p, storm::id_of(p), storm::size_of(p));
}

void give_back(void* p, Stream& random) {
  if (p == nullptr) return;
  expect(intact(p), "an object has changed");
  if (random.below(2) == 0) {
    loft_free(p);
  } else {
    loft_free_sized(p, storm::size_of(p));
  }
}

// NULL where a limit is in force.
void* make(Stream& random, size_t size) {
  if (random.below(4) == 0) {
    auto* words = static_cast<uint64_t*>(loft_calloc(size / 8, 8));
    for (size_t i = 0; words != nullptr && i < size / 8; i += storm::stride_for(size)) {
      expect(words[i] == 0, "calloc has returned old data");
    }
    return words;
  }
  return loft_malloc(size);
}

void* make_stamped(Stream& random, const Sizes& sizes) {
  const size_t size = draw(random, sizes);
  void* p = make(random, size);
  if (p != nullptr) storm::stamp(p, made.fetch_add(1, std::memory_order_relaxed), size);
  return p;
}

void* resize(void* p, Stream& random, const Sizes& sizes) {
  expect(intact(p), "an object has changed");
  const uint64_t id = storm::id_of(p);
  const size_t before = storm::size_of(p);
  const size_t after = draw(random, sizes);
  void* moved = loft_realloc(p, after);
  if (moved == nullptr) return p;
  expect(storm::intact(moved, id, before, std::min(before, after)), "realloc has lost something");
  storm::stamp(moved, id, after);
  return moved;
}

void work(Stream random, const Sizes& sizes, size_t live, unsigned operations) {
  for (unsigned i = 0; i < operations; ++i) {
    std::atomic<void*>& slot = slots[random.below(live)];
    switch (random.below(8)) {
      case 0: {
        void* p = slot.exchange(nullptr, std::memory_order_acq_rel);
        if (p != nullptr) p = resize(p, random, sizes);
        give_back(slot.exchange(p, std::memory_order_acq_rel), random);
        break;
      }
      case 1:
      case 2:
        give_back(slot.exchange(nullptr, std::memory_order_acq_rel), random);
        break;
      default:
        give_back(slot.exchange(make_stamped(random, sizes), std::memory_order_acq_rel), random);
    }
    if (random.below(4096) == 0) {
      loft_idle_begin();
      usleep(static_cast<useconds_t>(random.below(2000)));
      loft_idle_end();
    }
  }
}

// ---- What happens beside the threads that work -------------------------------------------------

// The child has what hung in the slots, and the caches of threads that it has not.
void fork_once(Stream& random) {
  const pid_t child = fork();
  if (child == 0) {
    faults.store(0, std::memory_order_relaxed);
    for (std::atomic<void*>& slot : slots) {
      give_back(slot.exchange(nullptr, std::memory_order_acq_rel), random);
    }
    const Sizes sizes = kSizes[random.below(3)];
    for (int i = 0; i < 2000; ++i) give_back(make_stamped(random, sizes), random);
    _exit(faults.load(std::memory_order_relaxed) == 0 ? 0 : 1);
  }
  int status = 0;
  expect(child > 0 && waitpid(child, &status, 0) == child, "there is no child");
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child has ended badly");
}

void purge(Stream& random) {
  if (random.below(2) == 0) {
    loft_purge(nullptr);
  } else {
    loft_malloc_trim(random.below(2) * (16 << 20));
  }
}

void set(const char* name, uint64_t value) {
  expect(loft_option_set(name, std::to_string(value).c_str()) == 0, name);
}

void limit(Stream& random) {
  const char* name = random.below(2) == 0 ? "soft_limit" : "hard_limit";
  set(name, (uint64_t{4} << 20) << random.below(6));
  usleep(static_cast<useconds_t>(random.below(20'000)));
  set(name, 0);
}

void change_options(Stream& random) {
  static constexpr const char* kBytes[] = {"cache_bytes", "dirty_bytes"};
  set(kBytes[random.below(std::size(kBytes))], uint64_t{4096} << random.below(16));
  set("decay_ms", random.below(3) * random.below(100));
}

void use_a_heap(Stream& random) {
  loft_heap_t* heap = loft_heap_create();
  if (heap == nullptr) return;
  for (int i = 0; i < 500; ++i) {
    const size_t size = draw(random, kSizes[random.below(4)]);
    void* p = loft_heap_malloc(heap, size);
    if (p == nullptr) break;
    storm::stamp(p, made.fetch_add(1, std::memory_order_relaxed), size);
    expect(intact(p), "an object of a heap has changed");
    if (random.below(2) == 0) loft_heap_free(heap, p);
  }
  loft_heap_destroy(heap);
}

// Threads that end at once, and leave their objects to others.
void short_threads(Stream& random, const Sizes& sizes, size_t live) {
  const uint64_t seed = advance(random.state);
  storm::on_threads(8, [&](unsigned i) { work(Stream{seed + i}, sizes, live, 50); });
}

void disturb(Stream& random, const Sizes& sizes, size_t live) {
  switch (random.below(7)) {
    case 0:
      return fork_once(random);
    case 1:
      return purge(random);
    case 2:
      return limit(random);
    case 3:
      return change_options(random);
    case 4:
      return use_a_heap(random);
    case 5:
      return short_threads(random, sizes, live);
    default:
      usleep(static_cast<useconds_t>(random.below(30'000)));
  }
}

void step(Stream& random) {
  const Sizes sizes = kSizes[random.below(std::size(kSizes))];
  // At most 64 MiB at a time.
  const size_t live = std::min(kSlots, (size_t{64} << 20) / sizes.most);
  const unsigned operations = storm::scaled(sizes.most > (64 << 10) ? 1000 : 20'000);
  const auto threads = static_cast<unsigned>(random.below(kMostThreads));
  const uint64_t seed = advance(random.state);
  std::thread beside([&] {
    storm::on_threads(threads,
                      [&](unsigned i) { work(Stream{seed + i}, sizes, live, operations); });
  });
  for (int i = 0; i < 4; ++i) disturb(random, sizes, live);
  work(random, sizes, live, operations);
  beside.join();
}

// ---- The end -----------------------------------------------------------------------------------

void expect_nothing_left() {
  // Memory that an option keeps would be no leak.
  set("decay_ms", 500);
  expect(loft_option_set("thp", "auto") == 0, "thp");
  const loft_stats_t s = storm::stats_at_rest();
  expect(s.batch_objects + s.objects_sent_singly == s.objects_received, "a message is lost");
  expect(s.live_objects == 0, "objects are left");
  expect(s.live_bytes == 0, "bytes of objects are left");
  expect(s.allocated_bytes == 0, "allocated bytes are left");
  expect(s.cached_bytes == 0, "cached bytes are left");
  expect(s.in_flight_bytes == 0, "bytes in flight are left");
  expect(s.large_bytes == 0, "large objects are left");
  expect(s.dirty_bytes == 0, "free spans keep their memory");
  expect(s.user_heaps == 0, "heaps are left");
  expect(s.user_heap_bytes == 0, "objects of heaps are left");
  expect(s.live_bytes + s.rounding_bytes + s.free_in_slabs_bytes + s.cached_bytes +
                 s.in_flight_bytes + s.large_cached_bytes + s.free_span_bytes +
                 s.metadata_resident_bytes + s.purged_charged_bytes + s.user_heap_resident_bytes +
                 s.huge_slack_bytes - s.untouched_bytes ==
             s.resident_bytes,
         "the accounting identity does not hold");
}

}  // namespace

unsigned run_round(uint64_t seed) {
  Stream random{seed};
  advance(random.state);
  for (unsigned i = 0; i < kSteps; ++i) step(random);
  for (std::atomic<void*>& slot : slots) {
    give_back(slot.exchange(nullptr, std::memory_order_acq_rel), random);
  }
  expect_nothing_left();
  return faults.load(std::memory_order_relaxed);
}

}  // namespace soak
