// Threads that fall asleep are emptied by the keeper, and wake up in the midst of it.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <mutex>
#include <random>
#include <set>

#include "base/options.h"
#include "cache/attention.h"
#include "cache/thread.h"
#include "keeper/keeper.h"
#include "space/span.h"
#include "storm/support.h"

namespace storm {
namespace {

void sleep_ms(unsigned milliseconds) {
  const struct timespec time = {milliseconds / 1000, long{milliseconds % 1000} * 1'000'000};
  nanosleep(&time, nullptr);
}

template <class Reached>
bool wait_for(Reached reached) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!reached() && std::chrono::steady_clock::now() < deadline) sleep_ms(1);
  return reached();
}

class QuietStorm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    loft::keeper::enable();
    // Grown enough for a keeper.
    void* p = loft_malloc(32 << 20);
    loft_free(p);
    loft_free(loft_malloc(100'000));
  }
  void SetUp() override {
    if (!loft::os::kSeesWaitingThreads) GTEST_SKIP() << "the thread sanitizer sees races in it";
    ASSERT_EQ(loft_option_set("decay_ms", "50"), 0);
  }
  void TearDown() override {
    loft_option_set("decay_ms", "500");
    loft_option_set("cgroup", "soft");
  }
};

// What a thread has stashed by the thousand goes home while it sleeps.
TEST_F(QuietStorm, DepotsAreEmptied) {
  constexpr unsigned kObjects = 20'000;
  std::atomic<unsigned> broken{0};
  on_threads(4, [&](unsigned me) {
    std::vector<void*> objects;
    for (unsigned round = 0; round < 24; ++round) {
      for (unsigned i = 0; i < kObjects; ++i) {
        objects.push_back(make(uint64_t{me} << 32 | i, 16));
      }
      for (unsigned i = 0; i < kObjects; ++i) {
        broken += check_and_free(objects[i], uint64_t{me} << 32 | i, 16) != 0;
      }
      objects.clear();
      loft::Thread* block = loft::self;
      if (round < 12 || block == &loft::stand_in) continue;
      // `self` alone may belong to a thread that is only being looked at, or just being emptied.
      const auto hidden = [&] {
        const loft::os::Guard guard(block->quiet.lock);
        return block->quiet.hidden;
      };
      for (int waits = 0; waits < 5000 && !hidden(); ++waits) sleep_ms(20);
      if (hidden()) {
        const loft::BinState& state = block->states[loft::class_of(16)];
        broken += state.depot != nullptr || state.stashed != 0;
        break;
      }
    }
  });
  EXPECT_EQ(broken, 0u);
}

// Each thread works for a moment and sleeps for about as long as it takes to be found quiet, so
// that it wakes before, while and after it is hidden. Objects are freed by their maker or by
// others.
TEST_F(QuietStorm, NothingIsLostOrHandedOutTwice) {
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
  std::atomic<unsigned> found_hidden{0};
  on_threads(kThreads, [&](unsigned me) {
    std::mt19937 random(me);
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
      sleep_ms(random() % 90);
      found_hidden += loft::self == &loft::stand_in;
    }
    for (const Item& item : mine) broken += check_and_free(item.p, item.id, item.size) != 0;
  });
  for (const Item& item : passed) broken += check_and_free(item.p, item.id, item.size) != 0;
  EXPECT_EQ(broken, 0u);
  EXPECT_GT(found_hidden, 0u) << "the storm met no keeper";
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

// Forks meet threads that are being hidden, are hidden, and are waking up.
TEST_F(QuietStorm, ForksBesideThreadsThatSleepAndWake) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> broken{0};
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < 4; ++me) {
    threads.emplace_back([&, me] {
      for (unsigned round = 0; !stop; ++round) {
        broken += work_a_little(me * 1000 + round % 500);
        if (round % 2 == 0) loft_idle_begin();
        if (round % 16 == 0) sleep_ms(30);
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
TEST_F(QuietStorm, PurgesBesideThreadsThatBeginAndEnd) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> broken{0};
  std::atomic<unsigned> ended{0};
  std::vector<std::thread> makers;
  for (unsigned me = 0; me < 3; ++me) {
    makers.emplace_back([&, me] {
      for (unsigned round = 0; !stop; ++round) {
        std::thread([&] {
          broken += work_a_little(me * 1000 + round % 500);
          sleep_ms(round % 2);
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

void nap(int) { sleep_ms(60); }

class QuietStormWithHandlers : public QuietStorm, public testing::WithParamInterface<int> {};

// Signal handlers that sleep may have interrupted a call anywhere on its fast path.
TEST_P(QuietStormWithHandlers, AThreadMayBeAsleepInTheMidstOfACall) {
  struct sigaction action = {};
  action.sa_handler = nap;
  action.sa_flags = SA_RESTART | GetParam();
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> broken{0};
  std::atomic<void*> slot{nullptr};
  // Two that allocate, check and free; the second also frees what the first one made.
  const auto work = [&](unsigned me) {
    alignas(16) static char stacks[2][64 << 10];
    const stack_t alternate = {stacks[me], 0, sizeof(stacks[me])};
    sigaltstack(&alternate, nullptr);
    void* held[64] = {};
    uint64_t ids[64] = {};
    uint64_t id = me;
    // Below and above what the table of bins goes up to.
    const auto size_at = [](size_t i) { return i % 2 == 0 ? size_t{64} : size_t{1500}; };
    while (!stop.load(std::memory_order_relaxed)) {
      const size_t i = (id * 7919 >> 3) % 64;
      if (held[i] != nullptr) broken += check_and_free(held[i], ids[i], size_at(i)) != 0;
      held[i] = make(ids[i] = id, size_at(i));
      id += 2;
      if (me == 0) {
        void* expected = nullptr;
        void* gift = make(1 << 20, 48);
        if (!slot.compare_exchange_strong(expected, gift)) loft_free(gift);
      } else if (void* gift = slot.exchange(nullptr); gift != nullptr) {
        broken += check_and_free(gift, 1 << 20, 48) != 0;
      }
    }
    for (size_t i = 0; i < 64; ++i) {
      if (held[i] != nullptr) broken += check_and_free(held[i], ids[i], size_at(i)) != 0;
    }
    const stack_t none = {nullptr, SS_DISABLE, 0};
    sigaltstack(&none, nullptr);
  };
  std::thread first(work, 0);
  std::thread second(work, 1);
  for (unsigned i = 0; i < 30; ++i) {
    sleep_ms(5 + i % 7);
    sigaction(SIGUSR1, &action, nullptr);
    pthread_kill(first.native_handle(), SIGUSR1);
    if (i % 2 == 0 && (GetParam() & SA_RESETHAND) == 0) {
      pthread_kill(second.native_handle(), SIGUSR1);
    }
    sleep_ms(65);
  }
  stop = true;
  first.join();
  second.join();
  loft_free(slot.exchange(nullptr));
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(broken, 0u);
}

INSTANTIATE_TEST_SUITE_P(Flags, QuietStormWithHandlers,
                         testing::Values(0, SA_ONSTACK, SA_RESETHAND | SA_NODEFER));

// Threads that wait by themselves keep no object, of whatever size, nor a slab for it.
TEST_F(QuietStorm, NothingIsKeptByAThreadThatSleepsBetweenCalls) {
  if (!loft::os::sees_system_calls()) GTEST_SKIP() << "the system does not tell";
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
      ++asleep;
      stop.wait(false);
      broken += use_all_sizes();
    });
  }
  while (asleep != threads.size()) sleep_ms(1);
  // This one holds nothing either.
  loft_idle_begin();
  const auto kept = [&] {
    const loft_stats_t s = stats();
    return s.cached_bytes + s.free_in_slabs_bytes;
  };
  wait_for([&] { return kept() == 0; });
  EXPECT_EQ(kept(), 0u);
  stop = true;
  stop.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0u);
}

// Of one that computes and calls nothing, its caches cannot be reached, but its slabs.
TEST_F(QuietStorm, HolesOfAThreadThatComputesGoBack) {
  if (owner_is("keeper")) GTEST_SKIP() << "the room's heap rests by its own measure";
  constexpr size_t kObjects = 20'000;
  constexpr size_t kSize = 1000;
  std::atomic<bool> stop{false};
  const uint64_t before = stats().hole_bytes;
  std::thread busy([&] {
    std::vector<void*> objects(kObjects);
    for (void*& p : objects) p = make(kSize, kSize);
    for (size_t i = 0; i < kObjects; ++i) {
      if (i % 50 != 0) loft_free(objects[i]);
    }
    while (!stop) {
    }
    for (size_t i = 0; i < kObjects; i += 50)
      EXPECT_EQ(check_and_free(objects[i], kSize, kSize), 0);
  });
  EXPECT_TRUE(wait_for([&] { return stats().hole_bytes - before > kObjects * kSize / 4; }));
  stop = true;
  busy.join();
}

// Threads that wake soon after they were hidden are hidden again, but only so many at each look.
TEST_F(QuietStorm, ThreadsThatWakeAllTheTimeAreLeftAloneMostOfIt) {
  constexpr unsigned kThreads = 150;
  constexpr unsigned kPerLook = 20;
  constexpr uint64_t kShortNs = 10'000'000'000;
  if (owner_is("core")) GTEST_SKIP() << "is about what threads hold";
  ASSERT_EQ(loft_option_set("decay_ms", "500"), 0);
  ASSERT_EQ(loft_option_set("cgroup", "off"), 0);  // where memory is tight all are emptied
  const auto hidden = [] { return stats().threads_hidden; };
  loft_idle_begin();  // this one would have its turn among them
  uint64_t asleep = hidden() + kThreads;
  std::atomic<unsigned> broken{0};
  std::atomic<unsigned> round{0};
  std::atomic<unsigned> done{0};
  constexpr unsigned kEnd = ~0u;
  uint64_t begin = loft::os::now_ns();
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (unsigned now = 0; now != kEnd;) {
        broken += work_a_little(me);
        ++done;
        round.wait(now);
        now = round;
      }
    });
  }
  bool seen = false;
  for (unsigned attempt = 0; attempt < 5 && !seen && !HasFailure(); ++attempt) {
    EXPECT_TRUE(wait_for([&] { return done == kThreads && hidden() >= asleep; }));
    EXPECT_EQ(hidden(), asleep);
    const uint32_t tick = loft::span::ticks();
    const uint64_t woken = loft::os::now_ns();
    done = 0;
    ++round;
    round.notify_all();
    EXPECT_TRUE(wait_for([&] { return done == kThreads; }));
    // Else some of them were hidden long before they woke.
    seen = loft::os::now_ns() - begin < kShortNs;
    begin = woken;
    for (uint64_t again = 0; seen && again < kThreads && !HasFailure();) {
      again = hidden() - asleep;
      const uint64_t looks = loft::span::ticks() - tick + 1;
      EXPECT_LE(again, kPerLook * looks);
      EXPECT_LT(looks, 1000u) << "they are never hidden again";
      sleep_ms(1);
    }
    asleep += kThreads;
  }
  EXPECT_TRUE(seen) << "in ten seconds they did not fall asleep and wake";
  round = kEnd;
  round.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0u);
}

}  // namespace
}  // namespace storm
