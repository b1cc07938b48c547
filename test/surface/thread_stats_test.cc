// What a thread has allocated, less what it has freed, held to a count that the test keeps.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "control.h"
#include "loft/loft.h"
#include "surface/support.h"

namespace {

using surface::kMiB;
using surface::opaque;

int64_t net() {
  loft_thread_stats_t stats;
  stats.struct_size = sizeof(stats);
  return loft_thread_stats(&stats) == 0 ? stats.net_bytes : INT64_MIN;
}

// Whether an object's place is its usable size. A hardened object has more than it shows.
bool places_show() {
  const char* const hardened = std::getenv("LOFT_HARDENED");
  return hardened == nullptr || std::string_view(hardened) == "off";
}

int64_t usable(const void* p) { return static_cast<int64_t>(loft_malloc_usable_size(p)); }

// Objects of one thread at a time. `bytes` is what they take.
struct Objects {
  std::vector<void*> all;
  int64_t bytes = 0;

  void add(void* p) {
    ASSERT_NE(p, nullptr);
    bytes += usable(p);
    all.push_back(p);  // which never grows: nothing else is allocated meanwhile
  }
  void free_last() {
    bytes -= usable(all.back());
    loft_free(all.back());
    all.pop_back();
  }
  void free_all() {
    while (!all.empty()) free_last();
  }
};

size_t some_size(std::mt19937_64& random) {
  const unsigned kind = random() % 100;
  if (kind < 80) return random() % 2000;
  if (kind < 94) return random() % (40 << 10);
  return kind < 99 ? random() % (5 * kMiB) : 4 * kMiB + random() % (8 * kMiB);
}

void* some_object(std::mt19937_64& random) {
  const size_t size = some_size(random);
  switch (random() % 6) {
    case 0:
      return loft_calloc(1, size);
    case 1:
      return loft_aligned_alloc(size_t{16} << random() % 9, size);
    case 2:
      return loft_aligned_calloc(64, 1, size);
    default:
      return loft_malloc(size);
  }
}

class ThreadStats : public testing::Test {
 protected:
  void SetUp() override {
    // Whoever starts loft's thread allocates what libc needs for one.
    ASSERT_EQ(loft_option_get("background", background_, sizeof(background_)), 0);
    ASSERT_EQ(loft_option_set("background", "off"), 0);
  }
  void TearDown() override {
    if (*background_ != '\0') loft_option_set("background", background_);
  }

 private:
  char background_[16] = {};
};

TEST(ThreadStatsOfAnyOwner, Errors) {
  loft_thread_stats_t stats = {};
  EXPECT_EQ(loft_thread_stats(&stats), EINVAL);
  stats.struct_size = sizeof(uint64_t);
  EXPECT_EQ(loft_thread_stats(&stats), EINVAL);
  struct {
    loft_thread_stats_t known;
    uint64_t later;
  } longer = {{sizeof(longer), 0}, 7};
  EXPECT_EQ(loft_thread_stats(&longer.known), 0);
  EXPECT_EQ(longer.known.struct_size, sizeof(loft_thread_stats_t));
  EXPECT_EQ(longer.later, 7u);
}

// Each kind by itself, there and back.
TEST_F(ThreadStats, OneObject) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{100}, size_t{1025}, size_t{5000}, size_t{32} << 10,
        size_t{33} << 10, size_t{500'000}, 4 * kMiB, 4 * kMiB + 1, 20 * kMiB}) {
    for (int i = 0; i < 100; ++i) {
      const int64_t before = net();
      void* const p = loft_malloc(opaque(size));
      const int64_t after = net();
      if (places_show()) {
        EXPECT_EQ(after - before, usable(p)) << size;
      } else if (size != 0) {
        EXPECT_GE(after - before, usable(p)) << size;
      }
      loft_free(p);
      ASSERT_EQ(net(), before) << size;
    }
  }
}

TEST_F(ThreadStats, ManyObjects) {
  std::mt19937_64 random(loft::test::seed());
  Objects objects;
  objects.all.reserve(10'000);
  const int64_t start = net();
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 300; ++i) {
      const unsigned what = random() % 10;
      if (what < 6 && objects.bytes < int64_t{200 * kMiB}) {
        objects.add(some_object(random));
      } else if (what < 9 && !objects.all.empty()) {
        std::swap(objects.all[random() % objects.all.size()], objects.all.back());
        objects.free_last();
      } else if (!objects.all.empty()) {
        void*& p = objects.all[random() % objects.all.size()];
        objects.bytes -= usable(p);
        const size_t size = some_size(random) + 1;
        if (random() % 2 == 0 || loft_expand(p, size) == 0) p = loft_realloc(p, size);
        objects.bytes += usable(p);
      }
    }
    // What lies in caches and what has left them makes no difference.
    if (round % 7 == 3) loft_idle_begin();
    if (round % 7 == 5) loft_purge(nullptr);
    if (places_show()) {
      ASSERT_EQ(net() - start, objects.bytes) << round;
    } else {
      ASSERT_GE(net() - start, objects.bytes) << round;
    }
  }
  objects.free_all();
  EXPECT_EQ(net(), start);
}

// A profile takes some objects to another place, where they count as what they would have been.
TEST_F(ThreadStats, BesideAProfile) {
  std::mt19937_64 random(loft::test::seed());
  char before[64];
  ASSERT_EQ(loft_option_get("sample_bytes", before, sizeof(before)), 0);
  std::vector<void*> objects;
  objects.reserve(20'000);
  for (const char* mean : {"1", "4096"}) {
    const int64_t start = net();
    ASSERT_EQ(loft_option_set("sample_bytes", mean), 0);
    ASSERT_EQ(loft_option_set("profile", "on"), 0);
    for (int i = 0; i < 3000; ++i) objects.push_back(loft_malloc(random() % 3000));
    for (int i = 0; i < 40; ++i) objects.push_back(loft_malloc(random() % (8 * kMiB)));
    for (void*& p : objects) {
      if (random() % 4 == 0) p = loft_realloc(p, random() % 3000 + 1);
      if (random() % 4 == 0) loft_expand(p, random() % 3000);
    }
    EXPECT_GT(net(), start);
    const size_t half = objects.size() / 2;
    for (size_t i = 0; i < half; ++i) loft_free(objects[i]);
    ASSERT_EQ(loft_option_set("profile", "off"), 0);
    for (size_t i = half; i < objects.size(); ++i) loft_free(objects[i]);
    objects.clear();
    EXPECT_EQ(net(), start) << mean;
  }
  ASSERT_EQ(loft_option_set("sample_bytes", before), 0);
}

// The thread that frees has less, and the one that allocated keeps its count.
TEST_F(ThreadStats, RemoteFrees) {
  for (const size_t size : {size_t{24}, size_t{200}, size_t{3000}, size_t{30'000}, size_t{60'000},
                            size_t{1'000'000}, 5 * kMiB}) {
    const size_t count = size < 40'000 ? 2000 : 20;
    std::vector<void*> objects(count, nullptr);
    const int64_t at_first = net();
    for (void*& p : objects) p = loft_malloc(size);
    const int64_t held = net() - at_first;
    EXPECT_GE(held, static_cast<int64_t>(count * size));
    std::atomic<int64_t> of_other{0};
    std::atomic<int64_t> and_back{0};
    std::thread([&] {
      const int64_t start = net();
      for (void* p : objects) loft_free(p);
      of_other = net() - start;
      // And the other way: some come from what has just been freed.
      for (void*& p : objects) p = loft_malloc(size);
      and_back = net() - start;
    }).join();
    EXPECT_EQ(of_other, -held) << size;
    if (places_show()) {
      EXPECT_EQ(and_back, 0) << size;
    }
    const int64_t before = net();
    for (void* p : objects) loft_free(p);
    EXPECT_EQ(net() - before, of_other - and_back) << size;
    loft_idle_begin();
    EXPECT_EQ(net() - before, of_other - and_back) << size;
  }
}

// Threads that allocate and free each other's objects all the time. Whoever keeps them in a cache,
// the sums of all threads agree.
TEST_F(ThreadStats, SumsOfThreadsThatTrade) {
  constexpr size_t kThreads = 4;
  constexpr size_t kPlaces = 2000;
  static std::atomic<void*> places[kPlaces];
  std::atomic<int64_t> sum{0};
  const auto trade = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    const int64_t start = net();
    for (int i = 0; i < 60'000; ++i) {
      const size_t size = i % 500 == 0 ? random() % (3 * kMiB) : random() % 1500;
      loft_free(places[random() % kPlaces].exchange(loft_malloc(size)));
    }
    sum += net() - start;
  };
  const uint64_t seed = loft::test::seed();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back(trade, static_cast<unsigned>(seed) + i);
  for (std::thread& thread : threads) thread.join();
  const int64_t before = net();
  for (std::atomic<void*>& place : places) loft_free(place.exchange(nullptr));
  EXPECT_EQ(sum + (net() - before), 0);
}

// A thread that takes over the block and the heap of one that has ended begins anew.
TEST_F(ThreadStats, AThreadBeginsAtNothing) {
  std::vector<void*> objects(3000, nullptr);
  for (int i = 0; i < 5; ++i) {
    int64_t begun = 0;
    int64_t freed = 0;
    int64_t held = 0;
    std::thread([&] {
      const int64_t start = net();
      for (void*& p : objects) p = loft_malloc(opaque(size_t{2000}));
      held = net() - start;
    }).join();
    std::thread([&] {
      begun = net();
      const int64_t start = net();
      for (void* p : objects) loft_free(p);
      freed = net() - start;
    }).join();
    EXPECT_LT(std::abs(begun), int64_t{kMiB});
    EXPECT_GE(held, 3000 * 2000);
    EXPECT_EQ(freed, -held);
  }
}

// Objects of heaps of the program's own are not the thread's.
TEST_F(ThreadStats, OtherHeapsDoNotCount) {
  const int64_t start = net();
  loft_heap_t* const heap = loft_heap_create();
  void* const p = loft_heap_malloc(heap, 1000);
  void* const q = loft_heap_malloc(heap, 5 * kMiB);
  EXPECT_EQ(net(), start);
  loft_free(p);
  EXPECT_EQ(net(), start);
  loft_heap_free(heap, q);
  loft_heap_destroy(heap);
  EXPECT_EQ(net(), start);
}

}  // namespace
