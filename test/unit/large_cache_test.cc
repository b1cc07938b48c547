// The large objects that a thread keeps for its next allocations.
#include "cache/large_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cache/bins.h"
#include "cache/object.h"
#include "front/allocate.h"
#include "heap/registry.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::in_thread;

constexpr size_t kSize = 800'000;

class LargeCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    deallocate(allocate(16));
    large_cache::release_all(self);
    self->large = LargeCache{};
  }
  void TearDown() override { large_cache::release_all(self); }

  static size_t kept() { return self->counters.large_kept_bytes.get(); }

  test::DefaultOptions defaults_;
};

TEST_F(LargeCacheTest, PairsTakeNoLock) {
  void* p = allocate(kSize);
  const uintptr_t base = test::number(p);
  deallocate(p);
  const unsigned long locks = span::totals().locks;
  const unsigned long metadata_locks = metadata::locks();
  for (int i = 0; i < 1000; ++i) {
    p = allocate(kSize - static_cast<size_t>(i));
    ASSERT_EQ(test::number(p), base);
    ASSERT_GE(usable_size(p), kSize - static_cast<size_t>(i));
    deallocate(p);
  }
  EXPECT_EQ(span::totals().locks, locks);
  EXPECT_EQ(metadata::locks(), metadata_locks);
}

// What the cache has no place for takes the lock of the spans, and none for its descriptor.
TEST_F(LargeCacheTest, DescriptorsAreTheThreadsOwn) {
  constexpr size_t kLong = size_t{2} << 20;
  deallocate(allocate(kLong));
  const unsigned long metadata_locks = metadata::locks();
  for (int i = 0; i < 100; ++i) deallocate(allocate(kLong));
  EXPECT_EQ(metadata::locks(), metadata_locks);
  const size_t used = metadata::used_bytes();
  EXPECT_GT(self->large.spare.count, 0u);
  large_cache::release_all(self);
  EXPECT_EQ(self->large.spare.count, 0u);
  EXPECT_LT(metadata::used_bytes(), used);
}

// A thread that frees what others allocate does not gather their descriptors.
TEST_F(LargeCacheTest, AThreadKeepsFewDescriptors) {
  std::vector<void*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(allocate(100'000));
  in_thread([&] {
    deallocate(allocate(16));
    for (void* p : objects) deallocate(p);
    EXPECT_EQ(kept(), 0u);
    EXPECT_LE(self->large.spare.count, 16u);
  });
}

// Whatever order the places were emptied in, nothing has to go while one of them is empty.
TEST_F(LargeCacheTest, WhatComesBackFindsAnEmptyPlace) {
  constexpr size_t kLength = size_t{1} << 16;
  std::vector<void*> objects;
  const auto allocate_some = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) objects.push_back(allocate(kLength));
  };
  const auto free_all = [&] {
    for (void* p : objects) deallocate(p);
    objects.clear();
  };
  allocate_some(kLargePlaces);
  free_all();
  ASSERT_EQ(kept(), kLargePlaces * kLength);
  for (unsigned count = 1; count <= kLargePlaces; ++count) {
    allocate_some(count);
    EXPECT_EQ(kept(), (kLargePlaces - count) * kLength);
    free_all();
    EXPECT_EQ(kept(), kLargePlaces * kLength);
  }
}

TEST_F(LargeCacheTest, KeptBytesAreZeroForCalloc) {
  auto* p = static_cast<char*>(allocate(kSize));
  __builtin_memset(p, 1, kSize);
  deallocate(p);
  void* zeroed = allocate_zeroed(kSize);
  EXPECT_EQ(zeroed, p);
  EXPECT_TRUE(test::reads_zero(zeroed, kSize));
  deallocate(zeroed);
}

TEST_F(LargeCacheTest, AThreadThatOnlyFreesKeepsNothing) {
  std::vector<void*> objects;
  for (int i = 0; i < 8; ++i) objects.push_back(allocate(100'000));
  in_thread([&] {
    deallocate(allocate(16));
    for (void* p : objects) deallocate(p);
    EXPECT_EQ(kept(), 0u);
  });
}

TEST_F(LargeCacheTest, KeepsNoMoreThanItsPlacesAndItsBudget) {
  std::vector<void*> objects;
  for (unsigned i = 0; i < 2 * kLargePlaces; ++i) objects.push_back(allocate(100'000));
  const size_t usable = usable_size(objects[0]);
  for (void* p : objects) deallocate(p);
  EXPECT_EQ(kept(), kLargePlaces * usable);
}

TEST_F(LargeCacheTest, TheBudgetIsTheOption) {
  options.cache_bytes.store(250'000);
  std::vector<void*> objects;
  for (int i = 0; i < 4; ++i) objects.push_back(allocate(100'000));
  const size_t usable = usable_size(objects[0]);
  for (void* p : objects) deallocate(p);
  EXPECT_EQ(kept(), 2 * usable);
  options.cache_bytes.store(0);
  void* p = allocate(200'000);
  deallocate(p);
  EXPECT_EQ(kept(), 2 * usable) << "what is larger than the budget is not kept";
}

TEST_F(LargeCacheTest, VeryLongOnesAreNotKept) {
  void* p = allocate((size_t{1} << 20) + 1);
  deallocate(p);
  EXPECT_EQ(kept(), 0u);
}

TEST_F(LargeCacheTest, AnUnusedOneGivesBackAtItsReview) {
  void* p = allocate(kSize);
  deallocate(p);
  deallocate(allocate(kSize));
  large_cache::review(self);
  EXPECT_NE(kept(), 0u) << "used since";
  large_cache::review(self);
  EXPECT_EQ(kept(), 0u);
}

// A program that goes on with one buffer does not keep those of other sizes for it.
TEST_F(LargeCacheTest, AReviewLeavesWhatIsUsed) {
  void* one = allocate(kSize);
  void* other = allocate(kSize / 2);
  const size_t usable = usable_size(one);
  deallocate(other);
  deallocate(one);
  for (int i = 0; i < 2; ++i) {
    deallocate(allocate(kSize));
    large_cache::review(self);
  }
  EXPECT_EQ(kept(), usable);
}

TEST_F(LargeCacheTest, TrimAndTheThreadsEndGiveBack) {
  void* p = allocate(kSize);
  deallocate(p);
  EXPECT_NE(kept(), 0u);
  trim(0);
  EXPECT_EQ(kept(), 0u);
  void* in_other = nullptr;
  in_thread([&] {
    in_other = allocate(kSize);
    deallocate(in_other);
    EXPECT_NE(kept(), 0u);
  });
  EXPECT_FALSE(object_of(in_other).start != nullptr);
}

// It may have died between keeping an object and counting it.
TEST_F(LargeCacheTest, OfAThreadThatDiedInAForkNothingCounts) {
  std::atomic<int> state{0};
  Thread* other = nullptr;
  std::thread thread([&] {
    deallocate(allocate(kSize));
    other = self;
    self->counters.large_kept_bytes.add(5000);
    state.store(1);
    state.notify_all();
    state.wait(1);
    self->counters.large_kept_bytes.add(size_t{0} - 5000);
  });
  state.wait(0);
  EXPECT_TRUE(test::child_passes([&] { return other->counters.large_kept_bytes.get() == 0; }));
  state.store(2);
  state.notify_all();
  thread.join();
}

TEST_F(LargeCacheTest, AKeptObjectIsNoObject) {
  void* p = allocate(kSize);
  EXPECT_EQ(object_of(p).start, p);
  deallocate(p);
  EXPECT_EQ(object_of(p).start, nullptr);
  EXPECT_DEATH(deallocate(p), "free of a pointer to memory that is not allocated .*: 0x");
}

}  // namespace
}  // namespace loft
