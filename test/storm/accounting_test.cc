// The accounting identity against what the system says of the same addresses, in
// /proc/self/smaps. Here the heap holds the test's own objects and nothing else: libc's malloc
// serves the rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/size_class.h"
#include "heap/registry.h"
#include "heaps/user_heap.h"
#include "os/os.h"
#include "os/residency.h"
#include "runtime/lifecycle.h"
#include "runtime/youth.h"
#include "space/span.h"
#include "space/window.h"
#include "stats/books.h"
#include "stats/residents.h"
#include "storm/support.h"

namespace storm {
namespace {

using loft::class_size;
using loft::kSizeClasses;

// Of the mappings of the heap. Read in pieces, without memory of anybody's heap. A mapping that
// grows between two pieces is told of twice, which is no reading: false.
bool read_smaps(const loft_stats_t& s, uint64_t& sum) {
  static char buffer[1 << 16];
  const int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  EXPECT_GE(file, 0);
  sum = 0;
  bool torn = false;
  unsigned long last = 0;
  bool ours = false;   // in part at least
  bool whole = false;  // the mapping is the heap's alone
  size_t held = 0;
  for (ssize_t n = 0; (n = read(file, buffer + held, sizeof(buffer) - 1 - held)) > 0;) {
    held += static_cast<size_t>(n);
    buffer[held] = 0;
    char* line = buffer;
    for (char* end = nullptr; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      unsigned long from = 0;
      unsigned long to = 0;
      unsigned long kib = 0;
      if (sscanf(line, "Rss: %lu kB", &kib) == 1) {
        sum += ours ? kib << 10 : 0;
        EXPECT_TRUE(!ours || whole || kib == 0);
      } else if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
        ours = s.address_begin < to && from < s.address_end;
        // It may have grown since.
        whole = s.address_begin <= from && to <= loft::window.heap.end;
        torn = torn || from < last;
        last = to;
      }
    }
    held -= static_cast<size_t>(line - buffer);
    memmove(buffer, line, held);
  }
  close(file);
  return !torn;
}

uint64_t rss_in_smaps(const loft_stats_t& s) {
  uint64_t sum = 0;
  while (!read_smaps(s, sum)) {
  }
  return sum;
}

std::vector<loft_class_stats_t> classes() {
  std::vector<loft_class_stats_t> rows(kSizeClasses + 1);
  EXPECT_EQ(loft_stats_classes(rows.data(), rows.size(), sizeof(rows[0])), rows.size());
  return rows;
}

void expect_identity_of(const loft_class_stats_t& row) {
  EXPECT_EQ(row.live_bytes + row.rounding_bytes + row.free_bytes + row.cached_bytes +
                row.in_flight_bytes + row.huge_slack_bytes - row.untouched_bytes,
            row.resident_bytes)
      << row.object_bytes;
}

void expect_sums(const loft_stats_t& s, const std::vector<loft_class_stats_t>& rows) {
  const auto sum = [&](uint64_t loft_class_stats_t::* field) {
    uint64_t bytes = 0;
    for (const loft_class_stats_t& row : rows) bytes += row.*field;
    return bytes;
  };
  EXPECT_EQ(sum(&loft_class_stats_t::live_objects), s.live_objects);
  EXPECT_EQ(sum(&loft_class_stats_t::live_bytes), s.live_bytes);
  EXPECT_EQ(sum(&loft_class_stats_t::rounding_bytes), s.rounding_bytes);
  EXPECT_EQ(sum(&loft_class_stats_t::free_bytes), s.free_in_slabs_bytes);
  EXPECT_EQ(sum(&loft_class_stats_t::cached_bytes), s.cached_bytes + s.large_cached_bytes);
  EXPECT_EQ(sum(&loft_class_stats_t::in_flight_bytes), s.in_flight_bytes);
  EXPECT_EQ(sum(&loft_class_stats_t::untouched_bytes), s.untouched_bytes);
  EXPECT_EQ(sum(&loft_class_stats_t::resident_bytes) + s.free_span_bytes + s.purged_charged_bytes +
                s.user_heap_resident_bytes + s.metadata_resident_bytes,
            s.resident_bytes)
      << "without huge pages";
  EXPECT_EQ(sum(&loft_class_stats_t::slabs_created), s.slabs_created);
  EXPECT_EQ(sum(&loft_class_stats_t::slabs_released), s.slabs_released);
  EXPECT_EQ(sum(&loft_class_stats_t::refills), s.refills);
  EXPECT_EQ(sum(&loft_class_stats_t::objects_received), s.objects_received);
  EXPECT_EQ(sum(&loft_class_stats_t::objects_sent), s.batch_objects + s.objects_sent_singly);
}

// Before Linux 6.7 the system does not tell pages that were only read from others.
bool tells_zeros() {
  const size_t page = loft::os::page_size();
  void* p = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(*static_cast<volatile char*>(p), 0);
  loft::os::Residency residency;
  const auto at = reinterpret_cast<uintptr_t>(p);
  residency.begin(at, at + page);
  const bool tells = residency.until(at + page).resident == 0;
  munmap(p, page);
  return tells;
}

// Nothing runs: to the byte.
loft_stats_t expect_exact() {
  const loft_stats_t s = stats();
  const uint64_t rss = rss_in_smaps(s);
  if (tells_zeros()) {
    EXPECT_EQ(rss, s.resident_bytes);
  } else {
    EXPECT_LE(rss, s.resident_bytes);
    EXPECT_LE(s.resident_bytes, rss + (1 << 20));
  }
  expect_identity(s);
  const std::vector<loft_class_stats_t> rows = classes();
  for (const loft_class_stats_t& row : rows) expect_identity_of(row);
  expect_sums(s, rows);
  return s;
}

void go_home() {
  for (int hop = 0; hop < 4; ++hop) loft_purge(nullptr);
}

struct Object {
  char* p;
  size_t size;
};

Object made(size_t size) {
  auto* p = static_cast<char*>(loft_malloc(size));
  EXPECT_NE(p, nullptr);
  memset(p, 0x5a, size);
  return {p, size};
}

// To its last usable byte, so that no page of it is without memory.
Object made_whole(size_t size) {
  const Object object = made(size);
  memset(object.p, 0x5a, loft_malloc_usable_size(object.p));
  return object;
}

// Each in a process of its own, as CTest runs them: the heap is new.
class Accounting : public testing::Test {
 protected:
  // The background thread would change what is compared.
  void SetUp() override { ASSERT_EQ(loft_option_set("decay_ms", "0"), 0); }
};

TEST_F(Accounting, AnUnusedHeapHasNothing) {
  const loft_stats_t s = stats();
  EXPECT_EQ(s.resident_bytes, 0u);
  expect_identity(s);
}

enum class Sampled { kNone, kSome, kAll };

// Every class, large objects, frees by the maker and by others, threads that have ended. `sampled`:
// which objects are samples: these count as the whole pages that they are, not in their class.
void expect_exact_at_rest(Sampled sampled) {
  constexpr unsigned kThreads = 5;
  std::vector<std::vector<Object>> kept(kThreads);
  std::vector<std::vector<Object>> passed(kThreads);
  on_threads(kThreads, [&](unsigned me) {
    loft::youth::end();  // or some objects would be of other classes
    std::mt19937 random(static_cast<unsigned>(seed_for(me)));
    for (unsigned round = 0; round < 40; ++round) {
      for (loft::SizeClass c = 0; c < kSizeClasses; ++c) {
        const Object object = made_whole(class_size(c) - random() % 16);
        const unsigned fate = random() % 4;
        if (fate == 0) {
          loft_free(object.p);
        } else {
          (fate == 1 ? passed : kept)[me].push_back(object);
        }
      }
      const Object large = made_whole(33'000 + random() % 500'000);
      (round % 2 == 0 ? passed : kept)[me].push_back(large);
    }
  });
  expect_exact();
  on_threads(kThreads, [&](unsigned me) {
    for (const Object& object : passed[(me + 1) % kThreads]) loft_free(object.p);
    passed[(me + 1) % kThreads].clear();
  });
  // What this thread frees goes to heaps that no thread has any more.
  for (auto& objects : kept) {
    for (size_t i = 0; i < objects.size(); i += 3) {
      loft_free(objects[i].p);
      objects[i] = {nullptr, 0};
    }
  }
  expect_exact();
  go_home();
  const loft_stats_t s = expect_exact();
  uint64_t objects_alive = 0;
  uint64_t small = 0;
  uint64_t large_asked = 0;
  uint64_t asked = 0;
  for (const auto& objects : kept) {
    for (const Object& object : objects) {
      if (object.p == nullptr) continue;
      ++objects_alive;
      asked += object.size;
      const size_t size = with_tag(object.size);
      const bool large = size > loft::kSmallMax;
      (large ? large_asked : small) += large ? object.size : class_size(loft::class_of(size));
    }
  }
  // Every live object was written, and every other page is gone: what loft charges is what is
  // there.
  loft_stats_t counted = {};
  loft::Books books;
  loft::read_books(books, counted);
  const loft::Residents found = loft::look_at_residents();
  for (loft::SizeClass c = 0; c < kSizeClasses; ++c) {
    EXPECT_EQ(books.classes[c].charged, found.classes[c]) << class_size(c);
  }
  EXPECT_EQ(books.dirty_bytes, found.free);
  EXPECT_EQ(s.untouched_bytes, 0u);
  EXPECT_EQ(s.huge_slack_bytes, 0u);
  EXPECT_EQ(s.purged_charged_bytes, 0u);
  EXPECT_EQ(s.free_span_bytes, 0u);
  EXPECT_EQ(s.cached_bytes, 0u);
  EXPECT_EQ(s.large_cached_bytes, 0u);
  EXPECT_EQ(s.in_flight_bytes, 0u);
  EXPECT_EQ(s.live_objects, objects_alive);
  const loft_class_stats_t large = classes().back();
  const uint64_t in_slabs =
      s.live_bytes + s.rounding_bytes - large.live_bytes - large.rounding_bytes;
  if (sampled == Sampled::kSome) {
    EXPECT_GT(large.live_bytes, large_asked);
    EXPECT_LT(in_slabs, small);
  } else {
    EXPECT_EQ(large.live_bytes, sampled == Sampled::kAll ? asked : large_asked);
    EXPECT_EQ(in_slabs, sampled == Sampled::kAll ? 0 : small);
  }
  for (const auto& objects : kept) {
    for (const Object& object : objects) loft_free(object.p);
  }
  go_home();
  const loft_stats_t end = expect_exact();
  EXPECT_EQ(end.live_objects, 0u);
  EXPECT_EQ(end.resident_bytes, end.metadata_resident_bytes);
  EXPECT_EQ(end.user_heaps, 0u);
}

TEST_F(Accounting, AtRestItIsExact) { expect_exact_at_rest(Sampled::kNone); }

void begin_profile(const char* mean, const char* of = "on") {
  ASSERT_EQ(loft_option_set("sample_bytes", mean), 0);
  ASSERT_EQ(loft_option_set("profile", of), 0);
}

// Each object is a sample; about half of the bytes are; only some objects are.
TEST_F(Accounting, AtRestItIsExactWithAProfile) {
  for (const char* mean : {"1", "4K", "256K"}) {
    in_child([=] {
      begin_profile(mean);
      expect_exact_at_rest(mean == std::string("1") ? Sampled::kAll : Sampled::kSome);
    });
  }
}

// What is told of the program's objects, in bytes and numbers, whichever rows they are in.
std::vector<uint64_t> told() {
  const loft_stats_t s = expect_exact();
  std::vector<uint64_t> all = {s.live_bytes, s.live_objects, s.user_heaps, s.user_heap_bytes};
  uint64_t objects = 0;
  uint64_t bytes = 0;
  for (const loft_class_stats_t& row : classes()) {
    objects += row.live_objects;
    bytes += row.live_bytes;
  }
  EXPECT_EQ(objects, s.live_objects);
  EXPECT_EQ(bytes, s.live_bytes);
  return all;
}

// One length for each class, so that loft knows the requests of each object.
std::vector<uint64_t> told_of_a_program() {
  std::vector<Object> objects;
  for (unsigned round = 0; round < 30; ++round) {
    for (loft::SizeClass c = 0; c < kSizeClasses; ++c) {
      objects.push_back(made(class_size(c) - c % 13));
      objects.push_back({static_cast<char*>(loft_calloc(1, class_size(c) - c % 13)), 0});
    }
    objects.push_back(made(33'000 + round * 1234));
    objects.push_back(made((1 << 20) + round * 12'345));
    objects.push_back({static_cast<char*>(loft_memalign(4096, 60'000)), 0});
    if (round % 8 == 0) objects.push_back(made((5 << 20) + round * 12'345));
    // Shorter, in its place.
    objects.push_back({static_cast<char*>(loft_realloc(made(90'000).p, 60'000)), 0});
  }
  for (size_t i = 0; i < objects.size(); i += 3) loft_free(objects[i].p);
  go_home();
  return told();
}

TEST_F(Accounting, SampledObjectsCountOnceAndByWhatWasAsked) {
  const auto with = [](const char* mean, const char* of) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    in_child([&] {
      if (of != nullptr) begin_profile(mean, of);
      const std::vector<uint64_t> all = told_of_a_program();
      const size_t bytes = all.size() * sizeof(all[0]);
      EXPECT_EQ(write(ends[1], all.data(), bytes), static_cast<ssize_t>(bytes));
    });
    close(ends[1]);
    std::vector<uint64_t> all(4);
    const size_t bytes = all.size() * sizeof(all[0]);
    EXPECT_EQ(read(ends[0], all.data(), bytes), static_cast<ssize_t>(bytes));
    close(ends[0]);
    return all;
  };
  const std::vector<uint64_t> wanted = with(nullptr, nullptr);
  EXPECT_GT(wanted[0], uint64_t{30} << 20);
  for (const char* mean : {"1", "2K"}) {
    const std::vector<uint64_t> all = with(mean, "on");
    // An estimate of objects in slabs; exact of samples.
    EXPECT_NEAR(static_cast<double>(all[0]), static_cast<double>(wanted[0]), 1e-4 * 54e6) << mean;
    EXPECT_EQ(std::vector(all.begin() + 1, all.end()),
              std::vector(wanted.begin() + 1, wanted.end()));
  }
  // Here each has a place in a slab, too.
  EXPECT_GT(with("2K", "waste")[1], wanted[1]);
}

// Threads that allocate, pass on and free without a pause, some hundred megabytes alive. What they
// have, they write: of what loft charges, only what is new in caches is not resident.
TEST_F(Accounting, UnderLoadItIsWithinOnePerCent) {
  ASSERT_EQ(loft_option_set("cache_bytes", "512K"), 0);
  // What were purged and taken again within one reading would be in neither of the two beside it.
  ASSERT_EQ(loft_option_set("dirty_bytes", "4G"), 0);
  constexpr unsigned kThreads = 4;
  constexpr size_t kSlots = 50'000;
  struct Slot {
    std::atomic<char*> p{nullptr};
  };
  const std::unique_ptr<Slot[]> slots(new Slot[kThreads * kSlots]);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> working{0};
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      std::mt19937 random(static_cast<unsigned>(seed_for(me)));
      const auto replace = [&](size_t i) {
        const unsigned kind = random() % 1000;
        const size_t size = kind == 0   ? 40'000 + random() % 200'000
                            : kind < 20 ? 1 + random() % 30'000
                                        : 1 + random() % 3000;
        loft_free(slots[i].p.exchange(made(size).p));
      };
      for (size_t i = 0; i < kSlots; ++i) replace(me * kSlots + i);
      ++working;
      while (!stop) replace(random() % (kThreads * kSlots));
    });
  }
  while (working < kThreads) sched_yield();
  const double resident = static_cast<double>(stats().resident_bytes);
  EXPECT_GT(resident, 300e6);
  // A thread that the system stops between malloc and its first write has untouched memory for as
  // long as that takes: one reading in forty may meet it.
  unsigned untouched = 0;
  for (unsigned round = 0; round < 20; ++round) {
    const loft_stats_t before = stats();
    const auto rss = static_cast<double>(rss_in_smaps(before));
    const loft_stats_t after = stats();
    for (const loft_stats_t& s : {before, after}) {
      expect_identity(s);
      untouched += static_cast<double>(s.untouched_bytes) < 0.01 * rss ? 0u : 1u;
      EXPECT_LT(static_cast<double>(s.untouched_bytes), 0.02 * rss);
    }
    const auto [low, high] = std::minmax({before.resident_bytes, after.resident_bytes});
    EXPECT_GE(rss, 0.99 * static_cast<double>(low));
    EXPECT_LE(rss, 1.01 * static_cast<double>(high));
    for (const loft_class_stats_t& row : classes()) expect_identity_of(row);
  }
  EXPECT_LE(untouched, 1u);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads * kSlots; ++i) loft_free(slots[i].p);
  go_home();
  EXPECT_EQ(expect_exact().live_objects, 0u);
}

loft_class_stats_t class_for(size_t asked) {
  const size_t size = with_tag(asked);
  return classes()[size > loft::kSmallMax ? kSizeClasses : loft::class_of(size)];
}

TEST_F(Accounting, ObjectsAreCountedWhereTheyAre) {
  constexpr size_t kSize = 200;
  const size_t bytes = class_size(loft::class_of(kSize));
  std::vector<Object> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(made(kSize));
  EXPECT_EQ(class_for(kSize).live_objects, 100u);
  EXPECT_EQ(class_for(kSize).live_bytes, 100 * kSize);
  EXPECT_EQ(class_for(kSize).rounding_bytes, 100 * (bytes - kSize));
  const uint64_t cached = class_for(kSize).cached_bytes;
  loft_free(objects.back().p);
  objects.pop_back();
  EXPECT_EQ(class_for(kSize).cached_bytes, cached + bytes);
  EXPECT_EQ(class_for(kSize).live_objects, 99u);

  std::atomic<int> step{0};
  std::thread other([&] {
    loft::youth::end();  // or it would have no batch
    for (int i = 0; i < 10; ++i) {
      loft_free(objects.back().p);
      objects.pop_back();
    }
    step = 1;
    step.notify_one();
    step.wait(1);
  });
  step.wait(0);
  EXPECT_EQ(class_for(kSize).in_flight_bytes, 10 * bytes) << "in an open batch";
  EXPECT_EQ(class_for(kSize).objects_sent, 0u);
  step = 2;
  step.notify_one();
  other.join();
  EXPECT_EQ(class_for(kSize).in_flight_bytes, 10 * bytes) << "in an inbox";
  EXPECT_EQ(class_for(kSize).objects_sent, 10u);
  EXPECT_EQ(class_for(kSize).objects_received, 0u);
  EXPECT_EQ(class_for(kSize).live_objects, 89u);
  go_home();
  EXPECT_EQ(class_for(kSize).in_flight_bytes, 0u);
  EXPECT_EQ(class_for(kSize).objects_received, 10u);
  EXPECT_EQ(class_for(kSize).cached_bytes, 0u);
  EXPECT_EQ(class_for(kSize).live_objects, 89u);
  for (const Object& object : objects) loft_free(object.p);
  go_home();
  expect_exact();
}

// One object of each class may stay with a thread that sleeps; what is below it has gone home.
TEST_F(Accounting, AThreadThatSleepsHoldsWhatItHolds) {
  std::vector<Object> kept;
  for (int i = 0; i < 500; ++i) kept.push_back(made(i % 2 == 0 ? 64 : 4000));
  go_home();
  std::atomic<int> step{0};
  std::thread other([&] {
    for (const size_t size : {64, 4000}) {
      std::vector<Object> objects;
      for (int i = 0; i < 500; ++i) objects.push_back(made(size));
      for (const Object& object : objects) loft_free(object.p);
    }
    loft_idle_begin();
    step = 1;
    step.notify_one();
    step.wait(1);
    loft_free(made(64).p);
    loft_free(made(4000).p);
    step = 3;
    step.notify_one();
    step.wait(3);
  });
  step.wait(0);
  EXPECT_EQ(class_for(64).cached_bytes, 0u);
  EXPECT_EQ(class_for(4000).cached_bytes, 0u);
  EXPECT_EQ(class_for(64).live_objects, 250u);
  EXPECT_EQ(class_for(4000).live_objects, 250u);
  EXPECT_EQ(stats().caches_emptied, 1u);
  expect_exact();
  step = 2;
  step.notify_one();
  step.wait(2);
  EXPECT_EQ(class_for(64).live_objects, 250u);
  EXPECT_EQ(class_for(4000).live_objects, 250u);
  EXPECT_GE(class_for(4000).cached_bytes, with_tag(4000));
  expect_exact();
  step = 4;
  step.notify_one();
  other.join();
}

TEST_F(Accounting, LargeObjectsAreExact) {
  constexpr size_t kSize = 100'001;
  constexpr size_t kPages = (kSize + 4095) / 4096 * 4096;
  if (loft::os::page_size() != 4096) GTEST_SKIP() << "counts pages of 4 KiB";
  const Object object = made(kSize);
  loft_class_stats_t row = class_for(kSize);
  EXPECT_EQ(row.live_bytes, kSize);
  EXPECT_EQ(row.rounding_bytes, kPages - kSize);
  EXPECT_EQ(row.resident_bytes, kPages);
  expect_exact();

  // Its pages stay, in the thread's cache.
  loft_free(object.p);
  row = class_for(kSize);
  EXPECT_EQ(row.live_objects, 0u);
  EXPECT_EQ(row.cached_bytes, kPages);
  EXPECT_EQ(stats().large_cached_bytes, kPages);
  void* shorter = loft_malloc(kSize - 500);
  EXPECT_EQ(shorter, object.p);
  row = class_for(kSize);
  EXPECT_EQ(row.live_bytes, kSize - 500);
  EXPECT_EQ(row.rounding_bytes, kPages - kSize + 500);
  EXPECT_EQ(row.untouched_bytes, 0u);
  expect_exact();
  loft_free(shorter);
  go_home();
  EXPECT_EQ(class_for(kSize).resident_bytes, 0u);

  // Not written is not resident, and read is not written.
  auto* sparse = static_cast<volatile char*>(loft_calloc(1, 64 << 20));
  char sum = 0;
  for (size_t page = 0; page < 150; ++page) sum = static_cast<char>(sum | sparse[page * 4096]);
  EXPECT_EQ(sum, 0);
  for (size_t page = 0; page < 100; ++page) sparse[page * 8192] = 1;
  row = class_for(kSize);
  EXPECT_EQ(row.live_bytes, 64u << 20);
  if (tells_zeros()) {
    EXPECT_EQ(row.resident_bytes, 100u * 4096);
    EXPECT_EQ(row.untouched_bytes, (64u << 20) - 100 * 4096);
  }
  expect_exact();
  auto* longer = static_cast<char*>(loft_realloc(const_cast<char*>(sparse), 65 << 20));
  EXPECT_EQ(class_for(kSize).live_bytes, 65u << 20);
  EXPECT_EQ(stats().large_resizes, 1u);
  loft_free(longer);
}

TEST_F(Accounting, HeapsOfTheProgramsOwnAreAPart) {
  constexpr size_t kSize = 1 << 20;
  loft_heap_t* own = loft_heap_create();
  for (const size_t size : {size_t{100}, size_t{3000}, kSize}) {
    memset(loft_heap_malloc(own, size), 1, size);
  }
  const loft_stats_t s = expect_exact();
  EXPECT_GE(s.user_heap_resident_bytes, kSize);
  EXPECT_LT(s.user_heap_resident_bytes, 2 * kSize);
  EXPECT_EQ(s.live_objects, 0u);
  loft_heap_destroy(own);
  EXPECT_EQ(expect_exact().user_heap_resident_bytes, 0u);
}

// The system does not discard locked pages, but unmaps them.
TEST_F(Accounting, LockedMemoryGoesBack) {
  constexpr size_t kSize = 5 << 20;
  const Object object = made(kSize);
  // The sanitizers' own mlock does nothing.
  if (syscall(SYS_mlock, object.p, kSize) != 0) GTEST_SKIP() << "may not lock";
  loft_free(object.p);
  EXPECT_EQ(stats().purged_charged_bytes, 0u);
  EXPECT_EQ(expect_exact().free_span_bytes, kSize);
  go_home();
  const loft_stats_t s = expect_exact();
  EXPECT_EQ(s.purged_charged_bytes, 0u);
  EXPECT_EQ(s.free_span_bytes, 0u);
  EXPECT_EQ(s.resident_bytes, s.metadata_resident_bytes);
  loft_free(made(kSize).p);
  EXPECT_EQ(stats().purged_charged_bytes, 0u);
  go_home();
  EXPECT_EQ(expect_exact().resident_bytes, stats().metadata_resident_bytes);
}

TEST_F(Accounting, HugePagesAreToldApart) {
  ASSERT_EQ(loft_option_set("thp", "prefer"), 0);
  constexpr size_t kHuge = 2 << 20;
  constexpr size_t kSize = 100'000;
  // The first steps of the window are without huge pages.
  constexpr size_t kFiller = 16 << 20;
  void* filler = loft_malloc(kFiller);
  // A page of the object is written, and a whole huge page is there.
  auto* object = static_cast<char*>(loft_aligned_alloc(kHuge, kSize));
  object[0] = 1;
  const loft_stats_t s = stats();
  expect_identity(s);
  if (s.huge_page_bytes == 0) GTEST_SKIP() << "the system gives, or tells of, no huge pages";
  EXPECT_EQ(rss_in_smaps(s), s.resident_bytes);
  EXPECT_EQ(s.huge_page_bytes, kHuge);
  EXPECT_EQ(s.live_bytes, kFiller + kSize);
  EXPECT_EQ(s.rounding_bytes, (128 << 10) - kSize) << "to whole granules";
  EXPECT_EQ(s.huge_slack_bytes, kHuge - (128 << 10));
  EXPECT_EQ(s.untouched_bytes, kFiller);
  // What is used of the rest is no slack any more; a slab of it has what is not handed out yet.
  const Object small = made(64);
  loft_stats_t after = stats();
  EXPECT_EQ(rss_in_smaps(after), after.resident_bytes);
  expect_identity(after);
  EXPECT_GT(after.huge_slack_bytes, 0u);
  // Free spans that were written are no slack either.
  loft_free(made(8 << 20).p);
  after = stats();
  EXPECT_EQ(rss_in_smaps(after), after.resident_bytes);
  expect_identity(after);
  EXPECT_GE(after.free_span_bytes, 8u << 20);
  loft_free(small.p);
  loft_free(object);
  loft_free(filler);
}

TEST_F(Accounting, ReadingTakesNoLockAndNoMemory) {
  std::vector<Object> objects;
  for (size_t size = 1; size < 1 << 20; size = size * 3 / 2 + 1) objects.push_back(made(size));
  loft_heap_t* own = loft_heap_create();
  void* in_own = loft_heap_malloc(own, 1000);
  const loft_stats_t before = stats();
  EXPECT_EQ(before.user_heaps, 1u);
  static char text[1 << 17];
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const auto read_all = [&] {
    EXPECT_EQ(stats().user_heap_bytes, before.user_heap_bytes);
    static loft_class_stats_t rows[kSizeClasses + 1];
    loft_stats_classes(rows, std::size(rows), sizeof(rows[0]));
    for (const auto format : {LOFT_STATS_TEXT, LOFT_STATS_JSON, LOFT_STATS_PROMETHEUS}) {
      loft_stats_print(text, sizeof(text), format);
      EXPECT_EQ(loft_stats_write(nowhere, format), 0);
    }
  };
  // With every lock held that there is: it would wait for ever.
  loft::lifecycle::restart_visits();
  loft::lifecycle::visit_threads(
      [](void* context, loft::ThreadCache*) {
        loft::registry::prepare_fork();
        loft::UserHeap::prepare_fork();
        loft::span::prepare_fork();
        (*static_cast<decltype(read_all)*>(context))();
        loft::span::finish_fork(false);
        loft::UserHeap::finish_fork(false);
        loft::registry::finish_fork(false);
        return false;
      },
      const_cast<void*>(static_cast<const void*>(&read_all)));
  loft_stats_t first = stats();
  read_all();
  loft_stats_t second = stats();
  EXPECT_EQ(memcmp(&first, &second, sizeof(first)), 0) << "nothing changed, no lock was taken";
  EXPECT_EQ(second.resident_bytes, before.resident_bytes);
  EXPECT_EQ(second.metadata_bytes, before.metadata_bytes);
  EXPECT_EQ(second.os_maps, before.os_maps);
  close(nowhere);
  loft_heap_free(own, in_own);
  loft_heap_destroy(own);
  for (const Object& object : objects) loft_free(object.p);
}

// In the child of a fork: of a quiet process, and of one whose threads are at work.
TEST_F(Accounting, HoldsInAChild) {
  std::vector<Object> objects;
  for (int i = 0; i < 3000; ++i) objects.push_back(made_whole(16 + i * 7 % 40'000));
  for (size_t i = 0; i < objects.size(); i += 2) loft_free(objects[i].p);
  go_home();
  const loft_stats_t parent = stats();
  in_child([&] {
    const loft_stats_t s = expect_exact();
    EXPECT_EQ(s.live_objects, parent.live_objects);
    EXPECT_EQ(s.untouched_bytes, 0u);
    for (size_t i = 1; i < objects.size(); i += 2) loft_free(objects[i].p);
    go_home();
    EXPECT_EQ(expect_exact().live_objects, 0u);
  });

  // What a thread that the child does not have held for others stays on its way.
  const size_t size = class_size(loft::class_of(300));
  std::vector<Object> given;
  for (int i = 0; i < 30; ++i) given.push_back(made(300));
  std::atomic<int> step{0};
  std::thread collector([&] {
    loft::youth::end();  // or it would hold nothing
    for (int i = 0; i < 10; ++i) loft_free(given[static_cast<size_t>(i)].p);
    step = 1;
    step.notify_one();
    step.wait(1);
  });
  step.wait(0);
  const uint64_t live = class_for(300).live_objects;
  const uint64_t in_flight = class_for(300).in_flight_bytes;
  // Else it may have freed them where they came from.
  if (threads_own()) {
    EXPECT_EQ(in_flight, 10 * size);
  }
  in_child([&] {
    EXPECT_EQ(class_for(300).in_flight_bytes, in_flight);
    EXPECT_EQ(class_for(300).live_objects, live);
    expect_exact();
  });
  step = 2;
  step.notify_one();
  collector.join();

  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < 3; ++me) {
    threads.emplace_back([&, me] {
      std::mt19937 random(static_cast<unsigned>(seed_for(me)));
      static std::atomic<char*> shared[1000];
      while (!stop) {
        loft_free(shared[random() % std::size(shared)].exchange(made(1 + random() % 20'000).p));
      }
    });
  }
  for (unsigned i = 0; i < scaled(20); ++i) {
    in_child([&] {
      expect_exact();
      go_home();
      expect_exact();
    });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace storm
