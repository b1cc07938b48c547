// Threads that are about to wait empty their caches, and the background thread gives back what idle
// heaps hold.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <random>

#include "cache/thread_cache.h"
#include "runtime/background.h"
#include "storm/support.h"

namespace storm {
namespace {

class IdleStorm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    loft::background::enable();
    // Grown enough for a background thread.
    void* p = loft_malloc(32 << 20);
    loft_free(p);
    loft_free(loft_malloc(100'000));
  }
  void SetUp() override { ASSERT_EQ(loft_option_set("decay_ms", "50"), 0); }
  void TearDown() override { loft_option_set("decay_ms", "500"); }
};

// What a thread has stashed by the thousand goes back when it says that it waits.
TEST_F(IdleStorm, DepotsAreEmptied) {
  constexpr unsigned kObjects = 20'000;
  std::atomic<unsigned> broken{0};
  on_threads(4, [&](unsigned me) {
    std::vector<void*> objects;
    for (unsigned round = 0; round < 12; ++round) {
      for (unsigned i = 0; i < kObjects; ++i) {
        objects.push_back(make(uint64_t{me} << 32 | i, 16));
      }
      for (unsigned i = 0; i < kObjects; ++i) {
        broken += check_and_free(objects[i], uint64_t{me} << 32 | i, 16) != 0;
      }
      objects.clear();
    }
    loft_idle_begin();
    const loft::ThreadCache* block = loft::self;
    if (block == &loft::empty_cache) return;  // processors have the caches
    const loft::BinState& state = block->states[loft::class_of(16)];
    broken += state.depot != nullptr || state.stashed != 0;
  });
  EXPECT_EQ(broken, 0u);
}

// Each thread works for a moment, empties its caches now and then, and rests for about as long as
// it takes to be found idle. Objects are freed by their maker or by others.
TEST_F(IdleStorm, NothingIsLostOrHandedOutTwice) {
  constexpr unsigned kThreads = 12;
  constexpr size_t kSizes[] = {16, 24, 48, 64, 100, 256, 1000, 4096, 9000, 30'000, 100'000};
  struct Item {
    void* p;
    uint64_t id;
    size_t size;
  };
  std::mutex lock;
  std::vector<Item> passed;
  std::atomic<unsigned> broken{0};
  Rests rests(kThreads, kThreads / 2);
  on_threads(kThreads, [&](unsigned me) {
    std::mt19937 random(static_cast<unsigned>(seed_for(me)));
    std::vector<Item> mine;
    for (unsigned round = 0; round < scaled(40); ++round) {
      for (unsigned i = 0; i < 400; ++i) {
        const size_t size = kSizes[random() % std::size(kSizes)];
        const uint64_t id = uint64_t{me} << 32 | round << 16 | i;
        mine.push_back({make(id, size), id, size});
        if (random() % 3 == 0) {
          std::swap(mine.back(), mine[random() % mine.size()]);
          broken += check_and_free(mine.back().p, mine.back().id, mine.back().size) != 0;
          mine.pop_back();
        }
      }
      {
        const std::lock_guard guard(lock);
        for (unsigned i = 0; i < 100; ++i) {
          passed.push_back(mine.back());
          mine.pop_back();
        }
      }
      std::vector<Item> theirs;
      {
        const std::lock_guard guard(lock);
        const size_t count = std::min<size_t>(passed.size(), 100);
        theirs.assign(passed.begin(), passed.begin() + static_cast<ptrdiff_t>(count));
        passed.erase(passed.begin(), passed.begin() + static_cast<ptrdiff_t>(count));
      }
      for (const Item& item : theirs) broken += check_and_free(item.p, item.id, item.size) != 0;
      if (random() % 4 == 0) loft_idle_begin();
      rests.rest(random() % 10);
    }
    rests.leave();
    for (const Item& item : mine) broken += check_and_free(item.p, item.id, item.size) != 0;
  });
  for (const Item& item : passed) broken += check_and_free(item.p, item.id, item.size) != 0;
  EXPECT_EQ(broken, 0u);
}

// Some objects of several sizes, up to 1 KiB and beyond, written and checked.
unsigned work_a_little(unsigned seed) {
  const auto size_of = [](unsigned id) {
    return size_t{48} + id % 40 * 16 + (id % 8 == 0 ? id % 5 * 6000 : 0);
  };
  void* held[100];
  for (unsigned i = 0; i < std::size(held); ++i) held[i] = make(seed + i, size_of(seed + i));
  unsigned broken = 0;
  for (unsigned i = 0; i < std::size(held); ++i) {
    broken += check_and_free(held[i], seed + i, size_of(seed + i)) != 0;
  }
  return broken;
}

// Forks meet threads that are emptying their caches.
TEST_F(IdleStorm, ForksBesideThreadsThatSleepAndWake) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> broken{0};
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < 4; ++me) {
    threads.emplace_back([&, me] {
      for (unsigned round = 0; !stop; ++round) {
        broken += work_a_little(me * 1000 + round % 500);
        if (round % 2 == 0) loft_idle_begin();
        if (round % 16 == 0) loft::test::advance_ms(30);
      }
    });
  }
  unsigned bad_children = 0;
  for (unsigned i = 0; i < scaled(200); ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // gtest's own memory is libc's: only loft is used here.
      unsigned faults = 0;
      for (unsigned round = 0; round < 4; ++round) faults += work_a_little(round);
      loft_malloc_trim(0);
      _exit(faults == 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    bad_children += status != 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad_children, 0u);
  EXPECT_EQ(broken, 0u);
}

// A purge must not act for a thread that is ending, nor for the next one in its block.
TEST_F(IdleStorm, PurgesBesideThreadsThatBeginAndEnd) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> broken{0};
  std::atomic<unsigned> ended{0};
  std::vector<std::thread> makers;
  for (unsigned me = 0; me < 3; ++me) {
    makers.emplace_back([&, me] {
      for (unsigned round = 0; !stop; ++round) {
        std::thread([&] {
          broken += work_a_little(me * 1000 + round % 500);
          if (round % 2 != 0) sched_yield();
          broken += work_a_little(round % 500);
        }).join();
        ++ended;
      }
    });
  }
  while (ended < scaled(600)) {
    loft_unreached_t unreached = {};
    loft_purge(&unreached);
    EXPECT_LE(unreached.threads, 16u);
  }
  stop = true;
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(broken, 0u);
}

// A thread that says that it waits keeps no object, of whatever size, nor a slab for it.
TEST_F(IdleStorm, NothingIsKeptByThreadsThatWait) {
  const auto use_all_sizes = [] {
    unsigned broken = 0;
    for (size_t size = 16; size <= 32 << 10; size = size * 5 / 4 + 1) {
      void* p = make(size, size);
      broken += check_and_free(p, size, size) != 0;
    }
    return broken;
  };
  std::atomic<unsigned> broken{0};
  std::atomic<unsigned> asleep{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      broken += use_all_sizes();
      loft_idle_begin();
      ++asleep;
      stop.wait(false);
      broken += use_all_sizes();
    });
  }
  while (asleep != threads.size()) sched_yield();
  loft_idle_begin();  // this one holds nothing either
  const auto kept = [&] {
    const loft_stats_t s = stats();
    return s.cached_bytes + s.free_in_slabs_bytes;
  };
  loft::test::pass_ms(1000);
  EXPECT_EQ(kept(), 0u);
  stop = true;
  stop.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0u);
}

// Of one that computes and calls nothing, its caches cannot be reached, but its slabs.
TEST_F(IdleStorm, HolesOfAThreadThatComputesGoBack) {
  constexpr size_t kObjects = 20'000;
  constexpr size_t kSize = 1000;
  std::atomic<bool> stop{false};
  std::atomic<bool> computes{false};
  const uint64_t before = stats().hole_bytes;
  std::thread busy([&] {
    std::vector<void*> objects(kObjects);
    for (void*& p : objects) p = make(kSize, kSize);
    for (size_t i = 0; i < kObjects; ++i) {
      if (i % 50 != 0) loft_free(objects[i]);
    }
    computes = true;
    while (!stop) {
    }
    for (size_t i = 0; i < kObjects; i += 50)
      EXPECT_EQ(check_and_free(objects[i], kSize, kSize), 0);
  });
  while (!computes) sched_yield();
  loft::test::pass_ms(1000);
  EXPECT_GT(stats().hole_bytes - before, kObjects * kSize / 4);
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace storm
