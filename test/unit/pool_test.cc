// What the caches of all threads hold together where a group's limit bounds it.
#include "cache/arrays.h"

#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "malloc/allocate.h"
#include "os/limits.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::kMiB;

void burst(size_t bytes, size_t shortest, size_t longest) {
  std::vector<void*> objects;
  for (size_t size = shortest, all = 0; all < bytes; all += size) {
    objects.push_back(allocate(size));
    ASSERT_NE(objects.back(), nullptr);
    size = size * 5 / 4 + 1;
    if (size > longest) size = shortest;
  }
  for (void* p : objects) deallocate(p);
}

size_t cached() {
  size_t bytes = 0;
  for (const ThreadCache* thread = newest_cache(); thread != nullptr; thread = thread->older) {
    bytes += thread->capacity_bytes + thread->counters.medium_kept_bytes.get();
    if (thread->recent.top() != kEmptyBin.top() && *thread->recent.top() != nullptr) {
      bytes += kMediumMax;
    }
  }
  return bytes;
}

class PoolTest : public testing::Test {
 protected:
  void SetUp() override { deallocate(allocate(16)); }
  void TearDown() override { limits::set_group(limits::Group{}); }

  static void group(size_t max) {
    limits::Group group;
    group.max = max;
    limits::set_group(group);
  }

  // Threads that have it one after another, and wait. Calls `look` then.
  template <class Look>
  static void have_bursts(unsigned count, size_t bytes, size_t shortest, size_t longest,
                          Look look) {
    std::mutex turn;
    std::latch all_had_it(count);
    std::latch end(1);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        {
          const std::lock_guard guard(turn);
          burst(bytes, shortest, longest);
        }
        all_had_it.count_down();
        end.wait();
      });
    }
    all_had_it.wait();
    look();
    end.count_down();
    for (std::thread& thread : threads) thread.join();
  }

  test::DefaultOptions default_options_;
};

TEST_F(PoolTest, ThreadsThatWaitHoldLittleTogether) {
  group(128 * kMiB);
  ASSERT_EQ(limits::scarce_cached(), 4 * kMiB);
  for (const auto& [shortest, longest] :
       {std::pair{32u, 2048u}, {32u, 32768u}, {40'000u, 900'000u}, {1'000'000u, 4'000'000u}}) {
    have_bursts(40, 8 * kMiB, shortest, longest, [] {
      // Arrays of up to 4 KiB are not refused.
      EXPECT_LE(cached(), 4 * kMiB + 40 * kSizeClasses * size_t{4096});
    });
  }
}

TEST_F(PoolTest, EachHasItsShare) {
  group(128 * kMiB);
  have_bursts(7, 4 * kMiB, 32, 2048, [] {
    EXPECT_LE(limits::cache_share(), 4 * kMiB / 8);
    const size_t before = self->capacity_bytes;
    burst(4 * kMiB, 32, 2048);
    EXPECT_LE(self->capacity_bytes, most(before, limits::cache_share() + kSizeClasses * 4096));
  });
}

TEST_F(PoolTest, WhatThreadsHadIsThereForOthers) {
  group(128 * kMiB);
  for (int round = 0; round < 20; ++round) {
    have_bursts(8, 8 * kMiB, 32, 2048, [] {});
  }
  std::thread([] {
    burst(8 * kMiB, 32, 2048);
    burst(8 * kMiB, 32, 2048);
    EXPECT_GE(self->capacity_bytes, kMiB);
  }).join();
}

TEST_F(PoolTest, NothingIsBoundWithoutALimit) {
  const auto burst_twice = [](size_t* held) {
    std::thread([=] {
      burst(16 * kMiB, 1'000, 2048);
      burst(16 * kMiB, 1'000, 2048);
      *held = self->capacity_bytes;
      EXPECT_EQ(self->counted_bytes, 0u);
    }).join();
  };
  size_t held = 0;
  burst_twice(&held);
  EXPECT_EQ(limits::cache_share(), limits::kNone);
  EXPECT_GE(held, kMiB);
}

// An object of which nobody counts the bytes is kept only where all caches may keep one.
TEST_F(PoolTest, TheBinOfMediumObjectsClosesAndOpens) {
  std::thread([] {
    for (int i = 0; i < 40; ++i) deallocate(allocate(100'000));
    const auto is_open = [] { return self->recent.limit() == self->medium.recent + 1; };
    EXPECT_TRUE(is_open());
    group(64 * kMiB);
    deallocate(allocate(200'000));
    EXPECT_FALSE(is_open());
    deallocate(allocate(200'000));
    EXPECT_FALSE(is_open());
    group(size_t{4096} * kMiB);
    deallocate(allocate(200'000));
    EXPECT_TRUE(is_open());
  }).join();
}

}  // namespace
}  // namespace loft
