// The hard limit refuses as the documents say, for every kind of request, and the program goes on;
// above the soft limit loft keeps little.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "background.h"
#include "control.h"
#include "loft/loft.h"
#include "surface/heap_stats.h"
#include "surface/support.h"

namespace {

using surface::kMiB;
using surface::stats;

// By how much loft's own tables, which are never refused, may grow beyond the limit here.
constexpr size_t kTables = 64 * 1024;

// An option for one scope.
class Option {
 public:
  Option(const char* name, size_t value) : name_(name) {
    EXPECT_EQ(loft_option_get(name, before_, sizeof(before_)), 0);
    EXPECT_EQ(loft_option_set(name, std::to_string(value).c_str()), 0);
  }
  ~Option() { loft_option_set(name_, before_); }
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

 private:
  const char* name_;
  char before_[32];
};

// So many bytes more than there are now.
class HardLimit {
 public:
  explicit HardLimit(size_t room)
      : limit_((loft_purge(nullptr), stats().committed_bytes) + room),
        option_("hard_limit", limit_) {}
  size_t bytes() const { return limit_; }

 private:
  size_t limit_;
  Option option_;
};

// Objects linked through their first bytes, so that keeping them allocates nothing.
class Chain {
 public:
  Chain() = default;
  ~Chain() { free_all(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  bool add(void* p) {
    if (p == nullptr) return false;
    *static_cast<void**>(p) = first_;
    first_ = p;
    ++count_;
    return true;
  }
  // Returns how many there are.
  size_t fill(size_t size) {
    while (add(malloc(size))) {
    }
    return count_;
  }
  void free_all() {
    while (first_ != nullptr) {
      void* next = *static_cast<void**>(first_);
      free(first_);
      first_ = next;
    }
    count_ = 0;
  }

 private:
  void* first_ = nullptr;
  size_t count_ = 0;
};

class SizesTest : public testing::TestWithParam<size_t> {};

TEST_P(SizesTest, AreRefusedAtTheLimitAndServedBelow) {
  const size_t size = GetParam();
  constexpr size_t kRoom = 32 * kMiB;
  const HardLimit limit(kRoom);
  Chain chain;
  for (int round = 0; round < 3; ++round) {
    errno = 0;
    const size_t bytes = chain.fill(size) * size;
    const int error = errno;
    const loft_stats_t s = stats();
    // The test's own messages need memory, too.
    chain.free_all();
    EXPECT_EQ(error, ENOMEM);
    EXPECT_EQ(s.hard_limit_bytes, limit.bytes());
    EXPECT_LE(s.committed_bytes, limit.bytes() + kTables);
    // What is lost: the rounding of sizes, and what the last slab or object would have taken.
    EXPECT_LE(bytes, kRoom + kMiB);
    EXPECT_GE(bytes + size, kRoom * 3 / 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SizesTest,
                         testing::Values(16, 100, 1000, 1100, 5000, 20'000, 32'768, 36 * 1024,
                                         100'000, 1 << 20, 10 << 20));

TEST(HardLimit, EveryFunctionAnswersAsItDoesWithoutMemory) {
  const HardLimit limit(16 * kMiB);
  constexpr size_t kTooMuch = 17 * kMiB;
  const unsigned long refusals = stats().hard_limit_refusals;
  errno = 0;
  EXPECT_EQ(malloc(surface::opaque(kTooMuch)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(calloc(17, surface::opaque(kMiB)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(aligned_alloc(64, surface::opaque(kTooMuch)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(memalign(kMiB, surface::opaque(kTooMuch)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = EDOM;
  void* p = nullptr;
  EXPECT_EQ(posix_memalign(&p, 4096, surface::opaque(kTooMuch)), ENOMEM);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(errno, EDOM);
  EXPECT_THROW(operator delete(operator new(surface::opaque(kTooMuch))), std::bad_alloc);
  EXPECT_THROW(operator delete(operator new(surface::opaque(kTooMuch), std::align_val_t{64})),
               std::bad_alloc);
  EXPECT_EQ(operator new(surface::opaque(kTooMuch), std::nothrow), nullptr);
  EXPECT_EQ(stats().hard_limit_refusals, refusals + 8);
  // What cannot be had anyway is not the limit's doing.
  EXPECT_EQ(malloc(surface::opaque(surface::kImpossible[0])), nullptr);
  EXPECT_EQ(stats().hard_limit_refusals, refusals + 8);
  // And less is served, all the time.
  p = malloc(surface::opaque(12 * kMiB));
  EXPECT_NE(p, nullptr);
  free(p);
}

// An exception that is thrown with no memory left needs some itself.
TEST(HardLimit, OperatorNewThrowsWhereNothingIsLeft) {
  const HardLimit limit(8 * kMiB);
  void* last = nullptr;
  bool thrown = false;
  try {
    for (;;) {
      void* const p = operator new(surface::opaque(size_t{48}));
      *static_cast<void**>(p) = last;
      last = p;
    }
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  while (last != nullptr) {
    void* const before = *static_cast<void**>(last);
    operator delete(last);
    last = before;
  }
  EXPECT_TRUE(thrown);
}

TEST(HardLimit, ReallocKeepsWhatItCannotGrow) {
  const HardLimit limit(64 * kMiB);
  for (const size_t size : {size_t{1000}, size_t{40'000}, 10 * kMiB}) {
    auto* p = static_cast<char*>(malloc(size));
    ASSERT_NE(p, nullptr);
    memset(p, 7, size);
    errno = 0;
    EXPECT_EQ(realloc(p, surface::opaque(65 * kMiB)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    for (size_t i = 0; i < size; i += 997) ASSERT_EQ(p[i], 7);
    free(p);
  }
}

// Pages that move do not come twice; where they cannot move, there must be room for both.
TEST(HardLimit, ReallocGrowsUpToIt) {
  const HardLimit limit(64 * kMiB);
  auto* p = static_cast<char*>(malloc(40 * kMiB));
  ASSERT_NE(p, nullptr);
  memset(p, 7, 40 * kMiB);
  void* behind = malloc(kMiB);
  char* q = static_cast<char*>(realloc(p, 60 * kMiB));
  if (q == nullptr) {
    free(p);
    free(behind);
    GTEST_SKIP() << "the kernel cannot move pages";
  }
  for (size_t i = 0; i < 40 * kMiB; i += 4096) ASSERT_EQ(q[i], 7);
  EXPECT_LE(stats().committed_bytes, limit.bytes() + kTables);
  EXPECT_EQ(realloc(q, surface::opaque(70 * kMiB)), nullptr);
  free(q);
  free(behind);
}

TEST(HardLimit, FreeMemoryOfAnyKindGivesWay) {
  const HardLimit limit(32 * kMiB);
  for (const size_t size : {size_t{64}, size_t{3000}, size_t{50'000}, 4 * kMiB}) {
    Chain chain;
    for (size_t bytes = 0; bytes < 24 * kMiB; bytes += size) ASSERT_TRUE(chain.add(malloc(size)));
    chain.free_all();
    void* p = malloc(surface::opaque(30 * kMiB));
    EXPECT_NE(p, nullptr) << size;
    free(p);
  }
  // Of a thread that has ended.
  std::thread([] {
    Chain chain;
    for (int i = 0; i < 24'000; ++i) chain.add(malloc(1000));
  }).join();
  void* p = malloc(surface::opaque(30 * kMiB));
  EXPECT_NE(p, nullptr);
  free(p);
}

// The other thread has freed nearly all of it, and is busy with other things.
TEST(HardLimit, FreeMemoryGivesWayToHeapsOfTheProgramsOwnAndTheirsToOthers) {
  const HardLimit limit(24 * kMiB);
  loft_heap_t* heap = loft_heap_create();
  ASSERT_NE(heap, nullptr);
  for (int round = 0; round < 3; ++round) {
    {
      Chain plain;
      // Asking goes through the whole heap: after each 64 objects, or 32 KiB.
      while (stats().committed_bytes < limit.bytes() - 2 * kMiB)
        for (int i = 0; i < 64; ++i) ASSERT_TRUE(plain.add(malloc(500)));
    }
    // What was freed there is in slabs and caches still.
    std::vector<void*> own;
    for (size_t bytes = 0; bytes < 16 * kMiB; bytes += 4000) {
      own.push_back(loft_heap_malloc(heap, 4000));
      ASSERT_NE(own.back(), nullptr) << bytes;
    }
    for (void* p : own) loft_heap_free(heap, p);
    void* large = malloc(16 * kMiB);
    EXPECT_NE(large, nullptr);
    free(large);
  }
  const unsigned long refusals = stats().hard_limit_refusals;
  EXPECT_EQ(loft_heap_malloc(heap, 64 * kMiB), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(stats().hard_limit_refusals, refusals + 1);
  loft_heap_destroy(heap);
}

// They take memory for what is to come, too; that must not refuse what is asked for now.
TEST(HardLimit, HeapsOfTheProgramsOwnGrowUpToIt) {
  const HardLimit limit(4 * kMiB);
  loft_heap_t* heap = loft_heap_create();
  ASSERT_NE(heap, nullptr);
  size_t count = 0;
  void* last = nullptr;
  for (void* p = nullptr; (p = loft_heap_malloc(heap, 3000)) != nullptr; ++count) last = p;
  const loft_stats_t s = stats();
  errno = 0;
  void* longer = loft_heap_realloc(heap, last, 5 * kMiB);
  const int error = errno;
  loft_heap_destroy(heap);
  EXPECT_GE(s.committed_bytes, limit.bytes() - 128 * 1024);
  EXPECT_GE(count * 3000, 3 * kMiB);
  EXPECT_EQ(longer, nullptr);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(stats().hard_limit_refusals, s.hard_limit_refusals + 1);
}

TEST(HardLimit, WithoutOneNothingCountsAsRefusedByIt) {
  const unsigned long refusals = stats().hard_limit_refusals;
  loft_heap_t* heap = loft_heap_create();
  ASSERT_NE(heap, nullptr);
  volatile size_t impossible = SIZE_MAX;
  EXPECT_EQ(loft_heap_malloc(heap, impossible), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  loft_heap_destroy(heap);
  EXPECT_EQ(stats().hard_limit_refusals, refusals);
}

TEST(HardLimit, WhatWasSentToAnotherThreadGivesWay) {
  const HardLimit limit(32 * kMiB);
  Chain chain;
  std::atomic<int> state{0};
  std::thread owner([&] {
    for (int i = 0; i < 24'000; ++i) chain.add(malloc(1000));
    state.store(1);
    state.notify_all();
    state.wait(1);
  });
  state.wait(0);
  chain.free_all();
  malloc_trim(0);  // sends what this thread still collects
  void* p = malloc(surface::opaque(24 * kMiB));
  EXPECT_NE(p, nullptr);
  free(p);
  state.store(2);
  state.notify_all();
  owner.join();
}

// Two threads have freed all they had, and are busy with other things.
TEST(HardLimit, WhatOtherThreadsHaveFreedGivesWay) {
  const HardLimit limit(64 * kMiB);
  std::atomic<int> ready{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      {
        Chain chain;
        for (int i = 0; i < 12'000; ++i) EXPECT_TRUE(chain.add(malloc(1000)));
      }
      ++ready;
      while (!stop) std::this_thread::yield();
    });
  }
  while (ready != 2) std::this_thread::yield();
  void* p = malloc(surface::opaque(56 * kMiB));
  EXPECT_NE(p, nullptr);
  free(p);
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// So that what loft has for each of so many threads is there, for the next ones.
void run_threads(int count) {
  std::barrier all(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) free(malloc(100));  // it is young no longer
      void* p = malloc(100);
      all.arrive_and_wait();
      free(p);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HardLimit, HoldsForAllThreadsTogether) {
  constexpr int kThreads = 4;
  run_threads(kThreads);
  const HardLimit limit(32 * kMiB);
  std::atomic<int> phase{0};  // 1: take all there is, 2: give it back
  std::atomic<int> full{0};
  std::atomic<size_t> bytes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const size_t size = t % 2 == 0 ? 200 : 70'000;
      Chain chain;
      phase.wait(0);
      bytes.fetch_add(chain.fill(size) * size);
      full.fetch_add(1);
      full.notify_all();
      phase.wait(1);
      chain.free_all();
      // Others still have theirs, or not: there is some for everybody soon.
      while (!chain.add(malloc(size))) std::this_thread::yield();
    });
  }
  phase.store(1);
  phase.notify_all();
  for (int n = 0; (n = full.load()) != kThreads;) full.wait(n);
  const loft_stats_t s = stats();
  phase.store(2);
  phase.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(bytes.load(), 33 * kMiB);
  EXPECT_GE(bytes.load(), 20 * kMiB);
  EXPECT_LE(s.committed_bytes, limit.bytes() + kTables);
}

TEST(HardLimit, MayBeBelowWhatIsInUse) {
  loft_purge(nullptr);  // what is kept for use again is served above the limit, too
  Chain small;
  for (int i = 0; i < 10'000; ++i) small.add(malloc(1000));
  auto* large = static_cast<char*>(malloc(16 * kMiB));
  large[0] = 1;
  {
    const Option limit("hard_limit", kMiB);
    EXPECT_EQ(malloc(surface::opaque(kMiB)), nullptr);
    EXPECT_EQ(realloc(large, surface::opaque(20 * kMiB)), nullptr);
    large = static_cast<char*>(realloc(large, 8 * kMiB));
    ASSERT_NE(large, nullptr);
    EXPECT_EQ(large[0], 1);
  }
  void* p = malloc(surface::opaque(kMiB));
  EXPECT_NE(p, nullptr);
  free(p);
  free(large);
}

TEST(HardLimit, OfTheParentIsTheChildsToo) {
  const HardLimit limit(32 * kMiB);
  const pid_t child = fork();
  if (child == 0) {
    Chain chain;
    const bool refused = malloc(surface::opaque(33 * kMiB)) == nullptr;
    const size_t bytes = chain.fill(10'000) * 10'000;
    chain.free_all();
    void* p = malloc(surface::opaque(16 * kMiB));
    _exit(refused && bytes > 16 * kMiB && bytes < 33 * kMiB && p != nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// --- soft

// A span that goes, on a slow path, when the pause between two purges is over.
void free_one_later() {
  void* p = malloc(surface::opaque(5 * kMiB));
  loft::test::advance_ms(1000);
  free(p);
}

class SoftLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    loft_purge(nullptr);
    ballast_ = malloc(surface::opaque(32 * kMiB));
  }
  void TearDown() override { free(ballast_); }

  void* ballast_ = nullptr;  // what is live, and above every limit here
  // Nobody but the calls themselves gives memory back.
  Option decay_{"decay_ms", 0};
};

TEST_F(SoftLimitTest, AboveItFreeMemoryGoesAtOnce) {
  const Option limit("soft_limit", 16 * kMiB);
  const unsigned long hits = stats().soft_limit_hits;
  Chain chain;
  for (int i = 0; i < 64; ++i) {
    void* p = malloc(kMiB);
    memset(p, 1, kMiB);
    chain.add(p);
  }
  for (int i = 0; i < 20'000; ++i) chain.add(malloc(1000));
  EXPECT_EQ(stats().soft_limit_hits, hits + 1);
  EXPECT_EQ(stats().soft_limit_bytes, 16 * kMiB);
  chain.free_all();
  // What a purge could not take, because of one just before it, goes with the next call.
  free_one_later();
  EXPECT_LE(stats().dirty_bytes, 256u * 1024);
}

// What was freed and is resident still: as free spans, or as objects in caches.
uint64_t free_bytes() { return stats().dirty_bytes + stats().large_cached_bytes; }

TEST_F(SoftLimitTest, BelowItFreeMemoryStays) {
  const Option limit("soft_limit", 256 * kMiB);
  Chain chain;
  for (int i = 0; i < 64; ++i) chain.add(malloc(kMiB));
  chain.free_all();
  EXPECT_GE(free_bytes(), 64 * kMiB);
  EXPECT_EQ(stats().soft_limit_bytes, 256 * kMiB);
}

TEST_F(SoftLimitTest, CrossingItSendsAwayWhatWasFreeBefore) {
  Chain chain;
  for (int i = 0; i < 32; ++i) chain.add(malloc(kMiB));
  chain.free_all();
  ASSERT_GE(free_bytes(), 32 * kMiB);
  const Option limit("soft_limit", stats().committed_bytes);
  // Longer than any free piece: new memory, and then there is more than is wanted.
  void* p = malloc(surface::opaque(40 * kMiB));
  free_one_later();
  EXPECT_LE(stats().dirty_bytes, 2 * kMiB);
  free(p);
}

// Fills and empties caches of several sizes. Returns how much more the calling thread's cache
// holds.
size_t cached_by_use() {
  const size_t before = stats().allocated_bytes;
  // Stocks that swing: the caches grow until a swing fits in.
  for (int round = 0; round < 40; ++round) {
    for (const size_t size : {64, 128, 256, 512, 640, 768, 1024, 1280, 2048, 4096}) {
      Chain chain;
      for (size_t bytes = 0; bytes < 400'000; bytes += size) chain.add(malloc(size));
    }
  }
  return stats().allocated_bytes - before;
}

TEST_F(SoftLimitTest, CachesShrinkAndStaySmall) {
  size_t plenty = 0;
  size_t shrunk = 0;
  size_t little = 0;
  std::thread([&] {
    plenty = cached_by_use();
    const Option limit("soft_limit", 16 * kMiB);
    free(malloc(surface::opaque(4 * kMiB)));  // notices
    shrunk = plenty + cached_by_use();
  }).join();
  std::thread([&] {
    const Option limit("soft_limit", 16 * kMiB);
    free(malloc(surface::opaque(4 * kMiB)));
    little = cached_by_use();
  }).join();
  EXPECT_GE(plenty, kMiB) << "or the test says nothing";
  EXPECT_LE(shrunk, plenty / 4);
  EXPECT_LE(little, plenty / 4);
}

TEST_F(SoftLimitTest, LargeObjectsAreNotKeptByThreads) {
  const auto kept = [] {
    const size_t before = stats().allocated_bytes;
    free(malloc(surface::opaque(500'000)));
    return stats().allocated_bytes - before;
  };
  EXPECT_GE(kept(), 500'000u);
  const Option limit("soft_limit", 16 * kMiB);
  free(malloc(surface::opaque(4 * kMiB)));
  EXPECT_LE(kept(), 0u - size_t{400'000}) << "nor what was kept before";
  EXPECT_EQ(kept(), 0u);
}

// Pages that go and come with every call would make the program many times as slow.
TEST_F(SoftLimitTest, ReturnsAreRare) {
  const Option limit("soft_limit", 16 * kMiB);
  const auto purges = [](size_t size, int count) {
    const unsigned long before = stats().os_purges + stats().os_maps;
    for (int i = 0; i < count; ++i) {
      void* p = malloc(size);
      memset(p, 1, size);
      free(p);
    }
    return stats().os_purges + stats().os_maps - before;
  };
  // Fits into what may stay.
  purges(100'000, 10);
  EXPECT_EQ(purges(100'000, 1000), 0u);
  // Does not. The time between two purges follows from what they take, and none passes here.
  loft::test::advance_ms(1000);
  const unsigned long once = purges(5 * kMiB, 200);
  EXPECT_GE(once, 1u);
  EXPECT_LE(once, 4u);
  EXPECT_EQ(purges(5 * kMiB, 200), 0u);
}

TEST_F(SoftLimitTest, ATickGivesBackTheRest) {
  // An hour: by decay alone nothing would go.
  const Option decay("decay_ms", 3'600'000);
  const Option limit("soft_limit", 16 * kMiB);
  Chain chain;
  for (int i = 0; i < 64; ++i) chain.add(malloc(kMiB));
  chain.free_all();
  loft::test::pass_ms(10'000);
  EXPECT_EQ(stats().dirty_bytes, 0u);
}

}  // namespace
