// Many threads at limits that come, move and go: what is refused is refused, and nothing is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <random>
#include <string>

#include "runtime/background.h"
#include "storm/support.h"

namespace storm {
namespace {

struct Item {
  void* p;
  uint64_t id;
  size_t size;
};

class LimitsStorm : public Storm {
 protected:
  static void SetUpTestSuite() { loft::background::enable(); }
  void TearDown() override {
    set("hard_limit", 0);
    set("soft_limit", 0);
  }
  static void set(const char* name, size_t value) {
    ASSERT_EQ(loft_option_set(name, std::to_string(value).c_str()), 0);
  }
};

constexpr size_t kLimitSizes[] = {16, 48, 100, 700, 3000, 20'000, 36'000, 150'000, 1'000'000};

TEST_F(LimitsStorm, RefusalsAndReturns) {
  constexpr unsigned kThreads = 6;
  std::mutex lock;
  std::vector<Item> passed;
  std::atomic<unsigned> broken{0};
  std::atomic<unsigned> refused{0};
  // Between nothing to spare and no limit at all, all the time.
  const auto change_weather = [&](std::mt19937& random) {
    const size_t now = stats().committed_bytes;
    set("hard_limit", random() % 3 == 0 ? 0 : now + random() % (4 << 20));
    set("soft_limit", random() % 3 == 0 ? 0 : 1 + random() % (now + (4 << 20)));
    if (const size_t limit = stats().hard_limit_bytes; limit != 0) {
      EXPECT_EQ(loft_malloc(limit), nullptr);
      ++refused;
    }
  };
  on_threads(kThreads, [&](unsigned me) {
    std::mt19937 random(static_cast<unsigned>(seed_for(me)));
    std::vector<Item> mine;
    for (unsigned round = 0; round < scaled(400); ++round) {
      for (unsigned i = 0; i < 60; ++i) {
        if (me == 0 && i % 8 == 0) change_weather(random);
        Item item{nullptr, uint64_t{me} << 32 | round << 8 | i, kLimitSizes[random() % 9]};
        item.p = make(item.id, item.size);
        if (item.p == nullptr) {
          ++refused;
          continue;
        }
        if (random() % 4 == 0) {
          // Grows and shrinks by copying, in place and by moving.
          const size_t size = kLeastSize + random() % (2 * item.size);
          if (void* p = loft_realloc(item.p, size); p != nullptr) {
            broken += !intact(p, item.id, item.size, size);
            item = {p, item.id, size};
            stamp(item.p, item.id, item.size);
          } else {
            broken += !intact(item.p, item.id, item.size);
          }
        }
        mine.push_back(item);
      }
      {
        // Others free some of it.
        const std::lock_guard guard(lock);
        passed.swap(mine);
      }
      while (mine.size() > 40) {
        std::swap(mine.back(), mine[random() % mine.size()]);
        broken += check_and_free(mine.back().p, mine.back().id, mine.back().size);
        mine.pop_back();
      }
    }
    for (const Item& item : mine) broken += check_and_free(item.p, item.id, item.size);
  });
  for (const Item& item : passed) broken += check_and_free(item.p, item.id, item.size);
  EXPECT_EQ(broken, 0u);
  EXPECT_GT(refused, 0u) << "the storm met no limit";
  TearDown();
  expect_all_home(std::size(kLimitSizes), size_t{512} << 10);
}

// A child starts with the limits and with what is committed, whatever others were at.
TEST_F(LimitsStorm, ForksAtTheLimit) {
  std::atomic<bool> done{false};
  std::atomic<unsigned> broken{0};
  set("hard_limit", stats().committed_bytes + (8 << 20));
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < 3; ++me) {
    threads.emplace_back([&, me] {
      std::mt19937 random(static_cast<unsigned>(seed_for(me)));
      for (uint64_t id = 0; !done.load(); ++id) {
        const size_t size = kLimitSizes[random() % 9];
        if (void* p = make(id, size); p != nullptr) broken += check_and_free(p, id, size);
      }
    });
  }
  for (unsigned round = 0; round < scaled(60); ++round) {
    const pid_t child = fork();
    if (child == 0) {
      loft::test::end_what_hangs();
      const size_t limit = stats().hard_limit_bytes;
      unsigned bad = loft_malloc(limit) != nullptr;
      for (uint64_t id = 0; id < 200; ++id) {
        const size_t size = kLimitSizes[id % 9];
        void* p = make(id, size);
        bad += p == nullptr || check_and_free(p, id, size) != 0;
      }
      // Tables count, and are never refused.
      bad += stats().committed_bytes > limit + (1 << 20);
      _exit(static_cast<int>(bad));
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0u);
}

}  // namespace
}  // namespace storm
