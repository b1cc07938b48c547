// Which limits are in force, what counts against them, and what spans do at the hard one.
#include "os/limits.h"

#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "heap/large.h"
#include "space/span.h"
#include "space/unused.h"
#include "stats/residents.h"
#include "stats/stats.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::kMiB;

class LimitsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(span::initialise()); }
  void TearDown() override {
    limits::set_group(limits::Group{});
    limits::weigh(0);
  }

  // As if the group had these limits.
  static void group(size_t high, size_t max, size_t limit = limits::kNone, size_t used = 0) {
    limits::Group group;
    group.high = high;
    group.max = max;
    group.limit = limit;
    group.used = used;
    limits::set_group(group);
  }

  test::DefaultOptions default_options_;
};

TEST_F(LimitsTest, NoneAtFirst) {
  EXPECT_EQ(limits::soft(), limits::kNone);
  EXPECT_EQ(limits::hard(), limits::kNone);
  limits::weigh(SIZE_MAX / 2);
  EXPECT_FALSE(limits::tight());
  EXPECT_EQ(limits::scarce_dirty(), limits::kNone);
  EXPECT_GE(unused::bound(), 64 * kMiB);
}

TEST_F(LimitsTest, ASmallGroupKeepsLittle) {
  group(limits::kNone, 64 * kMiB);
  EXPECT_EQ(limits::scarce_dirty(), 4 * kMiB);
  EXPECT_LE(unused::bound(), 4 * kMiB);
}

TEST_F(LimitsTest, FewAddressesKeepLittle) {
  EXPECT_EQ(limits::scarce_dirty(), limits::kNone);
  limits::set_address_space(160 * kMiB);
  EXPECT_EQ(limits::scarce_dirty(), 10 * kMiB);
  group(limits::kNone, 64 * kMiB);
  EXPECT_EQ(limits::scarce_dirty(), 4 * kMiB) << "the smallest counts";
  limits::set_address_space(limits::kNone);
}

TEST_F(LimitsTest, CachesShareWhatTheyMayHold) {
  EXPECT_EQ(limits::cache_share(), limits::kNone);
  EXPECT_FALSE(limits::bounds_caches());
  const unsigned long hits = limits::totals().soft_hits;
  group(limits::kNone, 128 * kMiB);
  EXPECT_EQ(limits::scarce_dirty() + 2 * limits::scarce_cached(), 16 * kMiB) << "an eighth";
  EXPECT_TRUE(limits::bounds_caches());
  EXPECT_FALSE(limits::tight());
  EXPECT_EQ(limits::totals().soft_hits, hits);
  limits::count_caches(1);
  const size_t caches = limits::scarce_cached() / limits::cache_share();
  limits::count_caches(10);
  EXPECT_EQ(limits::cache_share(), limits::scarce_cached() / (caches + 10));
  limits::set_address_space(32 * kMiB);
  EXPECT_EQ(limits::scarce_cached(), kMiB);
  EXPECT_LT(limits::cache_share(), kMiB / 10);
  limits::set_address_space(limits::kNone);
  limits::count_caches(-size_t{10});
  EXPECT_EQ(limits::cache_share(), limits::scarce_cached() / caches);
  limits::count_caches(-size_t{1});
  group(limits::kNone, limits::kNone);
  EXPECT_EQ(limits::cache_share(), limits::kNone);
}

TEST_F(LimitsTest, TheSmallestCounts) {
  options.soft_limit = 100 * kMiB;
  EXPECT_EQ(limits::soft(), 100 * kMiB);
  EXPECT_EQ(limits::hard(), limits::kNone);
  group(90 * kMiB, limits::kNone);
  EXPECT_EQ(limits::soft(), 90 * kMiB);
  group(limits::kNone, 64 * kMiB);
  EXPECT_EQ(limits::soft(), 60 * kMiB) << "little is kept before the group is stopped";
  EXPECT_EQ(limits::hard(), limits::kNone) << "what is committed need not be resident";
  options.cgroup = kGroupHard;
  EXPECT_EQ(limits::hard(), 60 * kMiB) << "the process has more than its heap";
  options.hard_limit = 32 * kMiB;
  EXPECT_EQ(limits::hard(), 32 * kMiB);
  EXPECT_EQ(limits::soft(), 30 * kMiB) << "and before anybody is refused";
  options.cgroup = kGroupOff;
  options.hard_limit = 0;
  EXPECT_EQ(limits::soft(), 100 * kMiB);
  EXPECT_EQ(limits::hard(), limits::kNone);
}

TEST_F(LimitsTest, TightUntilWellBelow) {
  options.soft_limit = 160 * kMiB;
  const unsigned long hits = limits::totals().soft_hits;
  limits::weigh(160 * kMiB);
  EXPECT_FALSE(limits::tight());
  limits::weigh(160 * kMiB + 1);
  EXPECT_TRUE(limits::tight());
  limits::weigh(200 * kMiB);
  limits::weigh(150 * kMiB + 1);
  EXPECT_TRUE(limits::tight());
  limits::weigh(150 * kMiB);
  EXPECT_FALSE(limits::tight());
  limits::weigh(155 * kMiB);
  EXPECT_FALSE(limits::tight());
  EXPECT_EQ(limits::totals().soft_hits, hits + 1);
  limits::weigh(161 * kMiB);
  EXPECT_TRUE(limits::tight());
  EXPECT_EQ(limits::totals().soft_hits, hits + 2);
  options.soft_limit = 0;
  limits::weigh(161 * kMiB);
  EXPECT_FALSE(limits::tight()) << "without a limit";
}

TEST_F(LimitsTest, TightWhileTheGroupIsNearOne) {
  options.cgroup = kGroupWatch;
  const unsigned long hits = limits::totals().soft_hits;
  group(limits::kNone, 160 * kMiB, 160 * kMiB, 150 * kMiB);
  EXPECT_FALSE(limits::tight());
  group(limits::kNone, 160 * kMiB, 160 * kMiB, 150 * kMiB + 1);
  EXPECT_TRUE(limits::tight());
  EXPECT_EQ(limits::totals().group_used, 150 * kMiB + 1);
  EXPECT_EQ(limits::totals().soft_hits, hits + 1);
  for (const GroupUse use : {kGroupOff, kGroupSoft}) {
    options.cgroup = use;
    limits::options_changed();
    EXPECT_FALSE(limits::tight()) << "who does not watch never learns that it is over";
  }
  options.cgroup = kGroupWatch;
  limits::options_changed();
  EXPECT_TRUE(limits::tight());
  group(limits::kNone, 160 * kMiB, 160 * kMiB, 100 * kMiB);
  EXPECT_FALSE(limits::tight());
}

TEST_F(LimitsTest, LittleIsKeptWhereItIsTight) {
  options.soft_limit = 640 * kMiB;
  limits::weigh(641 * kMiB);
  EXPECT_EQ(unused::bound(), 10 * kMiB);
  options.dirty_bytes = 5 * kMiB;
  EXPECT_EQ(unused::bound(), 5 * kMiB);
  options.soft_limit = 1;
  EXPECT_EQ(unused::bound(), 256u * 1024);
}

// What counts is what the statistics call committed.
size_t committed() {
  const loft_stats_t stats = counted_stats();
  EXPECT_EQ(stats.committed_bytes, span::committed());
  return stats.committed_bytes;
}

// Beside the descriptors of the object and of free spans.
testing::AssertionResult counts(size_t before, size_t bytes) {
  constexpr size_t kDescriptors = 1024;
  const size_t now = committed() - before;
  if (now >= bytes && now <= bytes + kDescriptors) return testing::AssertionSuccess();
  return testing::AssertionFailure() << now << " bytes, not " << bytes;
}

TEST_F(LimitsTest, WhatCountsIsWhatMayBeResident) {
  const size_t before = committed();
  void* p = test::allocate_large(36 * 1024, kGranule, false);
  EXPECT_TRUE(counts(before, kGranule)) << "what is left of the granule may be resident";
  Large* object = large::at(pagemap.of(p));
  ASSERT_EQ(large::resize(object, 48 * 1024), p);
  EXPECT_TRUE(counts(before, kGranule));
  void* q = large::resize(object, 10 * kMiB);
  ASSERT_NE(q, nullptr);
  EXPECT_TRUE(counts(before, 10 * kMiB));
  ASSERT_EQ(large::resize(object, 9 * kMiB), q);
  span::purge(0);
  EXPECT_TRUE(counts(before, 9 * kMiB));
  void* behind = test::allocate_large(4 * kMiB, kGranule, false);
  EXPECT_TRUE(counts(before, 13 * kMiB));
  q = large::resize(object, 20 * kMiB);
  if (q == nullptr) GTEST_SKIP() << "the kernel cannot move pages";
  EXPECT_TRUE(counts(before, 24 * kMiB)) << "what has moved does not count twice";
  ASSERT_EQ(large::resize(object, kMiB), q);
  EXPECT_TRUE(counts(before, 5 * kMiB));
  large::release(object);
  large::release(large::at(pagemap.of(behind)));
  span::purge(0);
  EXPECT_TRUE(counts(before, 0));
}

TEST_F(LimitsTest, FreedTablesCount) {
  void* block = metadata::allocate(kMetadataMaxBlock);
  ASSERT_NE(block, nullptr);
  const size_t with = committed();
  metadata::release(block, kMetadataMaxBlock);
  EXPECT_EQ(committed(), with) << "their pages stay";
}

class HardLimitTest : public LimitsTest {
 protected:
  void SetUp() override {
    LimitsTest::SetUp();
    span::purge(0);
    base_ = span::committed();
    options.hard_limit = base_ + 16 * kMiB;
  }
  void TearDown() override {
    for (const auto& [base, granules] : held_) span::release(base, granules, true);
    span::purge(0);
    LimitsTest::TearDown();
  }

  bool take(size_t granules, size_t alignment = kGranule) {
    const span::Range range = span::acquire(granules, alignment);
    if (range.base == 0) return false;
    held_.push_back({range.base, granules});
    EXPECT_LE(span::committed(), limits::hard());
    return true;
  }
  void give(bool dirty) {
    span::release(held_.back().base, held_.back().granules, dirty);
    held_.pop_back();
  }

  struct Held {
    uintptr_t base;
    size_t granules;
  };
  size_t base_ = 0;
  std::vector<Held> held_;
};

TEST_F(HardLimitTest, IsMetToTheGranule) {
  // Descriptors of spans count, too: of 256 granules one is left to them.
  ASSERT_TRUE(take(254));
  EXPECT_FALSE(take(3));
  EXPECT_TRUE(take(1));
  EXPECT_FALSE(take(2));
  options.hard_limit = span::committed() + kGranule - 1;
  EXPECT_FALSE(take(1));
  give(true);
  EXPECT_TRUE(take(1)) << "resident";
  give(false);
  EXPECT_TRUE(take(1)) << "clean";
  options.hard_limit = 0;
  EXPECT_TRUE(take(1));
}

TEST_F(HardLimitTest, ResidentSpansGiveWay) {
  ASSERT_TRUE(take(100));
  ASSERT_TRUE(take(1));
  ASSERT_TRUE(take(100));
  give(true);
  std::swap(held_[0], held_[1]);
  give(true);
  // 200 granules are free, in two pieces that are too short.
  EXPECT_TRUE(take(150));
  EXPECT_TRUE(take(100, 16 * kGranule));
  EXPECT_FALSE(take(10));
}

TEST_F(HardLimitTest, WhatCannotBeServedGivesNothingBack) {
  ASSERT_TRUE(take(100));
  ASSERT_TRUE(take(100));
  options.dirty_bytes = size_t{1} << 40;
  give(true);
  const size_t dirty = span::totals().dirty;
  EXPECT_FALSE(take(200));
  EXPECT_FALSE(take(size_t{1} << 30));
  EXPECT_EQ(span::totals().dirty, dirty);
}

TEST_F(HardLimitTest, GrowingInPlaceCounts) {
  ASSERT_TRUE(take(200));
  const uintptr_t end = held_.back().base + 200 * kGranule;
  EXPECT_FALSE(span::extend(end, 57));
  if (!span::extend(end, 40)) GTEST_SKIP() << "something else is there";
  held_.back().granules += 40;
  EXPECT_FALSE(span::recount(0, 17 * kGranule));
  EXPECT_TRUE(span::recount(0, kGranule));
  EXPECT_TRUE(span::recount(kGranule, 0));
}

TEST_F(HardLimitTest, BelowWhatIsInUse) {
  ASSERT_TRUE(take(100));
  ASSERT_TRUE(take(100));
  ASSERT_TRUE(take(1));
  options.hard_limit = base_ + 50 * kGranule;
  EXPECT_FALSE(take(1));
  std::swap(held_[1], held_[2]);
  give(true);
  EXPECT_FALSE(take(1)) << "resident ones do not serve above the limit";
  std::swap(held_[0], held_[1]);
  give(true);
  EXPECT_TRUE(take(40));
  EXPECT_FALSE(take(20));
}

// What lies behind an object in its last granule may be resident, and so counts.
TEST_F(HardLimitTest, WhatIsLeftBehindAnObjectCounts) {
  constexpr size_t kSize = 36 * 1024;
  const auto written = [](size_t size) {
    void* p = test::allocate_large(size, kGranule, false);
    memset(p, 1, size);
    return large::at(pagemap.of(p));
  };
  const size_t before = span::counted() - span::totals().dirty;
  const auto counts = [&](size_t granules) {
    return span::counted() - span::totals().dirty == before + granules * kGranule;
  };
  large::release(written(8 * kMiB));
  std::vector<Large*> objects(100);
  for (Large*& object : objects) object = written(kSize);
  EXPECT_GT(look_at_residents().behind, 100 * (kGranule - kSize) / 2) << "else this tests nothing";
  EXPECT_TRUE(counts(100));
  for (Large* object : objects) large::release(object);
  EXPECT_TRUE(counts(0));

  Large* object = written(2 * kMiB);
  ASSERT_NE(large::resize(object, kMiB + 4096), nullptr);
  EXPECT_TRUE(counts(17)) << "cut off with granules";
  ASSERT_NE(large::resize(object, kMiB + 60 * 1024), nullptr);
  EXPECT_TRUE(counts(17)) << "grown within one";
  ASSERT_NE(large::resize(object, 4 * kMiB + 4096), nullptr);
  EXPECT_TRUE(counts(65)) << "grown, here or somewhere else";
  ASSERT_TRUE(take(1));
  if (large::resize(object, 6 * kMiB + 4096) == nullptr) GTEST_SKIP() << "pages cannot be moved";
  EXPECT_TRUE(counts(98)) << "moved";
  large::release(object);
}

TEST_F(HardLimitTest, MovingAnObjectDoesNotCountTwice) {
  void* p = test::allocate_large(10 * kMiB, kGranule, false);
  ASSERT_NE(p, nullptr);
  Large* object = large::at(pagemap.of(p));
  ASSERT_TRUE(take(1));  // behind it
  if (large::resize(object, 12 * kMiB) == nullptr) GTEST_SKIP() << "the kernel cannot move pages";
  EXPECT_LE(span::committed(), limits::hard());
  EXPECT_EQ(large::resize(object, 17 * kMiB), nullptr);
  EXPECT_EQ(object->bytes, 12 * kMiB);
  large::release(object);
}

}  // namespace
}  // namespace loft
