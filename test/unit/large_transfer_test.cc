// Large objects that one thread frees and another one allocates.
#include "cache/large_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cache/large_cache.h"
#include "cache/object.h"
#include "front/allocate.h"
#include "loft/loft.h"
#include "space/limits.h"
#include "space/metadata.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::in_thread;

constexpr size_t kSize = 100'000;

class LargeTransferTest : public testing::Test {
 protected:
  void SetUp() override {
    deallocate(allocate(16));
    trim(0);
    self->large = LargeCache{};
  }
  void TearDown() override { trim(0); }

  // By a thread that has allocated no large object.
  static void free_elsewhere(const std::vector<void*>& objects) {
    in_thread([&] {
      deallocate(allocate(16));
      for (void* p : objects) deallocate(p);
    });
  }
  static std::vector<void*> some(size_t count, size_t size = kSize) {
    std::vector<void*> objects;
    for (size_t i = 0; i < count; ++i) objects.push_back(allocate(size));
    return objects;
  }

  test::DefaultOptions defaults_;
};

TEST_F(LargeTransferTest, WhoAllocatesGetsWhatOthersFreed) {
  const std::vector<void*> before = some(4);
  free_elsewhere(before);
  EXPECT_EQ(large_transfer::bytes(), 4 * round_up(kSize, os::page_size()));
  const unsigned long locks = span::totals().locks;
  const unsigned long metadata_locks = metadata::locks();
  void* after[4];
  for (void*& p : after) p = allocate(kSize);
  EXPECT_EQ(span::totals().locks, locks);
  EXPECT_EQ(metadata::locks(), metadata_locks);
  EXPECT_TRUE(std::is_permutation(before.begin(), before.end(), after));
  EXPECT_EQ(large_transfer::bytes(), 0u);
  for (void* p : after) deallocate(p);
}

// Of any length that takes as many granules; it is then as long as it was asked for.
TEST_F(LargeTransferTest, OfAnotherLength) {
  free_elsewhere(some(1, 120'000));
  void* shorter = allocate(70'000);
  EXPECT_EQ(usable_size(shorter), round_up(70'000, os::page_size()));
  EXPECT_EQ(large_transfer::bytes(), 0u);
  free_elsewhere({shorter});
  void* other = allocate(200'000);
  EXPECT_EQ(large_transfer::bytes(), round_up(70'000, os::page_size())) << "too short for that";
  deallocate(other);
}

TEST_F(LargeTransferTest, HoldsEightOrAMebibyteOfALength) {
  free_elsewhere(some(20));
  EXPECT_EQ(large_transfer::bytes(), 8 * round_up(kSize, os::page_size()));
  EXPECT_TRUE(large_transfer::release_all());
  EXPECT_FALSE(large_transfer::release_all());
  free_elsewhere(some(5, 300'000));
  EXPECT_EQ(large_transfer::bytes(), 3 * round_up(300'000, os::page_size()));
  large_transfer::release_all();
  free_elsewhere(some(3, 1 << 20));
  EXPECT_EQ(large_transfer::bytes(), 1u << 20);
  large_transfer::release_all();
  free_elsewhere(some(3, (1 << 20) + 1));
  EXPECT_EQ(large_transfer::bytes(), 0u);
  options.dirty_bytes.store(64 * 1024);
  free_elsewhere(some(1));
  EXPECT_EQ(large_transfer::bytes(), 0u) << "no free span of that length would stay";
}

TEST_F(LargeTransferTest, WhatNobodyTakesGoesBack) {
  free_elsewhere(some(2));
  EXPECT_FALSE(large_transfer::release_idle()) << "it came after the last look";
  void* p = allocate(kSize);
  EXPECT_TRUE(large_transfer::release_idle());
  EXPECT_EQ(large_transfer::bytes(), 0u);
  deallocate(p);
}

// Descriptors are used again at once: the same word that comes anew is not an old one.
TEST_F(LargeTransferTest, WhatComesAnewIsNotOld) {
  free_elsewhere(some(1));
  EXPECT_FALSE(large_transfer::release_idle());
  EXPECT_TRUE(large_transfer::release_idle());
  free_elsewhere(some(1));
  EXPECT_FALSE(large_transfer::release_idle());
  EXPECT_NE(large_transfer::bytes(), 0u);
}

// Under a hard limit it makes room for an object that grows where it is or moves its pages, where
// there would be none for a copy.
TEST_F(LargeTransferTest, MakesWayForAnObjectThatGrows) {
  constexpr size_t kLong = size_t{40} << 20;
  constexpr size_t kMore = size_t{3} << 20;
  const std::vector<void*> passed = some(4, 1 << 20);
  void* p = allocate(kLong);
  free_elsewhere({passed[0]});
  ASSERT_NE(large_transfer::bytes(), 0u);
  span::purge(0);
  options.hard_limit.store(span::committed() + kMore - (size_t{1} << 19));
  p = reallocate(p, kLong + kMore);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(large_transfer::bytes(), 0u);
  options.hard_limit.store(0);
  deallocate(p);
  for (size_t i = 1; i < passed.size(); ++i) deallocate(passed[i]);
}

TEST_F(LargeTransferTest, TrimGivesBack) {
  free_elsewhere(some(2));
  EXPECT_NE(large_transfer::bytes(), 0u);
  trim(0);
  EXPECT_EQ(large_transfer::bytes(), 0u);
}

TEST_F(LargeTransferTest, WhereMemoryIsTightNothingStays) {
  free_elsewhere(some(2));
  EXPECT_NE(large_transfer::bytes(), 0u);
  options.soft_limit.store(1);
  limits::weigh(span::committed());
  ASSERT_TRUE(limits::tight());
  void* p = allocate(kSize);
  void* q = allocate(kSize);
  EXPECT_EQ(large_transfer::bytes(), 0u);
  free_elsewhere({p, q});
  EXPECT_EQ(large_transfer::bytes(), 0u);
  options.soft_limit.store(0);
  limits::weigh(span::committed());
}

TEST_F(LargeTransferTest, CountsAsCached) {
  const auto stats = [] {
    loft_stats_t s = {};
    s.struct_size = sizeof(s);
    EXPECT_EQ(loft_stats(&s), 0);
    return s;
  };
  const loft_stats_t before = stats();
  free_elsewhere(some(3));
  const loft_stats_t after = stats();
  EXPECT_EQ(after.large_bytes, before.large_bytes);
  EXPECT_EQ(after.large_cached_bytes - before.large_cached_bytes,
            3 * round_up(kSize, os::page_size()));
}

TEST_F(LargeTransferTest, IsNoObjectThere) {
  void* p = allocate(kSize);
  free_elsewhere({p});
  EXPECT_EQ(object_of(p).start, nullptr);
  EXPECT_DEATH(deallocate(p), "free of a pointer to memory that is not allocated .*: 0x");
}

TEST_F(LargeTransferTest, AChildFindsIt) {
  void* const p = allocate(kSize);
  free_elsewhere({p});
  EXPECT_TRUE(test::child_passes([&] { return allocate(kSize) == p; }));
}

}  // namespace
}  // namespace loft
