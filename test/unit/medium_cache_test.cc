// The medium objects that a thread keeps for its next allocations.
#include "cache/medium_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cache/bins.h"
#include "cache/object.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "space/span.h"
#include "stats/net.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::in_thread;

constexpr size_t kSize = 800'000;

class MediumCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    deallocate(allocate(16));
    medium_cache::release_all(self);
    medium_cache::reset(self);
  }
  void TearDown() override { medium_cache::release_all(self); }

  static size_t kept() {
    const void* recent = nullptr;
    return medium_cache::held(self, &recent);
  }
  // From now on, free's fast path keeps the object freed last.
  static void watch_no_more() {
    for (int i = 0; i < 32; ++i) deallocate(allocate(kSize));
  }
  static unsigned long locks() { return span::totals().locks + metadata::locks(); }
  static unsigned long heap_locks() { return self->heap->lock().acquisitions(); }

  test::DefaultOptions defaults_;
};

TEST_F(MediumCacheTest, PairsTakeNoLock) {
  void* p = allocate(kSize);
  const uintptr_t base = test::number(p);
  deallocate(p);
  const unsigned long before = locks() + heap_locks();
  for (int i = 0; i < 1000; ++i) {
    p = allocate(kSize - static_cast<size_t>(i));
    ASSERT_EQ(test::number(p), base);
    ASSERT_GE(usable_size(p), kSize - static_cast<size_t>(i));
    deallocate(p);
  }
  EXPECT_EQ(locks() + heap_locks(), before);
}

// Eight of one length, of which the oldest goes and another one comes.
TEST_F(MediumCacheTest, TheBinServesAnyObjectOfTheLength) {
  watch_no_more();
  void* alive[8];
  for (void*& p : alive) p = allocate(kSize);
  const unsigned long before = locks() + heap_locks();
  for (size_t i = 0; i < 1000; ++i) {
    void*& p = alive[i % 8];
    void* const freed = p;
    deallocate(p);
    p = allocate(kSize - i % 1000);
    ASSERT_EQ(p, freed);
  }
  EXPECT_EQ(locks() + heap_locks(), before);
  for (void* p : alive) deallocate(p);
}

// Four lengths in turn: each finds its slot, which the one freed before takes.
TEST_F(MediumCacheTest, LengthsInTurnTakeNoLock) {
  watch_no_more();
  for (size_t i = 0; i < 8; ++i) deallocate(allocate(100'000 + i % 4 * 50'000));
  const unsigned long before = locks() + heap_locks();
  for (size_t i = 0; i < 1000; ++i) deallocate(allocate(100'000 + i % 4 * 50'000));
  EXPECT_EQ(locks() + heap_locks(), before);
}

// A request of more than a medium object has bits where a word has other fields: neither pages that
// an object has beyond what was asked for, nor its mark, nor a gap are what it looks for.
TEST_F(MediumCacheTest, ALongRequestFindsNoObjectByItsMarks) {
  constexpr size_t kAsked = 9 * kRunPage;
  watch_no_more();
  const auto serves = [](void* p, size_t size) {
    ASSERT_EQ(*self->recent.top(), p);
    for (void* q : {allocate(size), allocate_aligned(64, size), allocate_zeroed(size)}) {
      EXPECT_NE(q, p) << size;
      if (q != p) deallocate(q);
    }
    EXPECT_EQ(*self->recent.top(), p) << size;
  };
  for (const unsigned more : {1u, 2u, 30u}) {
    const size_t long_size = (size_t{more} << 24) + kAsked;
    const auto with_more = [=] {
      void* const p = allocate(kAsked + more * kRunPage);
      medium::run_at(pagemap.of(p))->word_at(p).set(9 + more, kAsked);
      return p;
    };
    void* const freed = with_more();
    deallocate(freed);
    serves(freed, long_size);
    for (const bool aligned : {false, true}) {
      void* const p = with_more();
      void* const moved = aligned ? reallocate_aligned(p, 64, long_size) : reallocate(p, long_size);
      EXPECT_NE(moved, p);
      ASSERT_NE(moved, nullptr);
      EXPECT_GE(usable_size(moved), long_size);
      deallocate(moved);
    }
  }
  void* const p = allocate(kAsked);
  MediumWord& word = medium::run_at(pagemap.of(p))->word_at(p);
  deallocate(p);
  word.keep();
  serves(p, (size_t{8} << 20) + kAsked);
  word.set_gap(1u << 22 | (kAsked - 1));
  serves(p, (size_t{2} << 30) + kAsked);
  word.set(kAsked);
  EXPECT_EQ(allocate(kAsked), p);
  deallocate(p);
}

// Objects of other lengths come and go meanwhile, and one stays.
TEST_F(MediumCacheTest, TheBinTakesNothingAmiss) {
  watch_no_more();
  void* stays = allocate(kSize);
  for (size_t i = 0; i < 100; ++i) {
    void* p = allocate(kSize);
    void* q = allocate(kSize / 2 + i * 1000);
    ASSERT_NE(p, q);
    ASSERT_NE(p, stays);
    deallocate(i % 2 == 0 ? p : q);
    void* r = allocate(i % 3 == 0 ? kSize : kSize / 2 + i * 1000);
    ASSERT_NE(r, i % 2 == 0 ? q : p);
    ASSERT_NE(r, stays);
    deallocate(i % 2 == 0 ? q : p);
    deallocate(r);
  }
  deallocate(stays);
}

// The object that lies where one lay may be another, of a younger run.
TEST_F(MediumCacheTest, TheBinKnowsAYoungerRun) {
  watch_no_more();
  void* p = allocate(kSize);
  deallocate(p);
  trim(0);
  void* again = allocate(kSize / 2);
  deallocate(again);
  void* third = allocate(kSize);
  EXPECT_EQ(usable_size(third), round_up(kSize, os::page_size()));
  deallocate(third);
}

TEST_F(MediumCacheTest, TheBinFindsMisuseAtTheNextCall) {
  watch_no_more();
  auto* p = static_cast<char*>(allocate(kSize));
  deallocate(p);
  EXPECT_DEATH(deallocate(p), "free of a pointer to memory that is not allocated .*: 0x");
  p = static_cast<char*>(allocate(kSize));
  EXPECT_DEATH(deallocate(p + 16);
               deallocate(allocate(kSize)), "free of an interior pointer .*: object");
  EXPECT_DEATH(deallocate(p + 8192); trim(0), "free of an interior pointer .*: object");
  deallocate(p);
}

// What was freed again while it was kept lies in the bin, too: the next call hands it out once, and
// does not keep it at the same time.
TEST_F(MediumCacheTest, TheBinFindsWhatIsKept) {
  constexpr size_t kLength = 100'000;  // the budget has room for both
  watch_no_more();
  void* p = allocate(kLength);
  void* q = allocate(kLength);
  for (void* each : {p, q, p}) deallocate(each);
  ASSERT_EQ(*self->recent.top(), p);
  EXPECT_DEATH(allocate(kLength), "free of a pointer to memory that is not allocated .*: 0x");
  EXPECT_DEATH(allocate(2 * kLength), "free of a pointer to memory that is not allocated .*: 0x");
  options.misuse.store(1);
  void* const one = allocate(kLength);
  void* const other = allocate(kLength);
  EXPECT_NE(one, other);
  options.misuse.store(0);
  deallocate(one);
  deallocate(other);
}

// By the option misuse=continue, the second free does nothing, wherever it is found.
TEST_F(MediumCacheTest, ADoubleFreeMayBeIgnored) {
  watch_no_more();
  options.misuse.store(1);
  void* p = allocate(kSize);
  void* q = allocate(kSize);
  for (int i = 0; i < 3; ++i) deallocate(p);
  in_thread([&] { deallocate(q); });
  deallocate(q);
  medium_cache::release_all(self);
  options.misuse.store(0);
  p = allocate(kSize);
  q = allocate(kSize);
  EXPECT_NE(p, q);
  deallocate(p);
  deallocate(q);
}

// An object in the bin is freed by another thread, too, and what lies there now is younger.
TEST_F(MediumCacheTest, TheBinFindsMisuseAfterTheRunsEnd) {
  watch_no_more();
  void* p = allocate(kSize);
  deallocate(p);
  // As if the run had been given back, and the memory cut for small objects.
  EXPECT_DEATH(
      {
        *self->medium.recent = nullptr;
        self->medium.recent[1] = allocate(64);
        medium_cache::release_all(self);
      },
      "double free of 0x.*, whose run was given back since");
}

// A large object takes the lock of the spans, and none for its descriptor.
TEST_F(MediumCacheTest, DescriptorsOfLargeObjectsAreTheThreadsOwn) {
  constexpr size_t kLong = kMediumMax + 1;
  deallocate(allocate(kLong));
  const unsigned long metadata_locks = metadata::locks();
  for (int i = 0; i < 100; ++i) deallocate(allocate(kLong));
  EXPECT_EQ(metadata::locks(), metadata_locks);
  const size_t used = metadata::used_bytes();
  EXPECT_GT(self->spare_large.count, 0u);
  large::release_descriptors(&self->spare_large);
  EXPECT_EQ(self->spare_large.count, 0u);
  EXPECT_LT(metadata::used_bytes(), used);
}

// A thread that frees what others allocate does not gather their descriptors.
TEST_F(MediumCacheTest, AThreadKeepsFewDescriptors) {
  std::vector<void*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(allocate(kMediumMax + 1));
  in_thread([&] {
    deallocate(allocate(16));
    for (void* p : objects) deallocate(p);
    EXPECT_LE(self->spare_large.count, 16u);
  });
}

// Whatever order the places were emptied in, nothing has to go while one of them is empty.
TEST_F(MediumCacheTest, WhatComesBackFindsAnEmptyPlace) {
  constexpr size_t kLength = size_t{1} << 16;
  std::vector<void*> objects;
  const auto allocate_some = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) objects.push_back(allocate(kLength));
  };
  const auto free_all = [&] {
    for (void* p : objects) deallocate(p);
    objects.clear();
  };
  allocate_some(kMediumSlots);
  free_all();
  ASSERT_EQ(kept(), kMediumSlots * kLength);
  for (unsigned count = 1; count <= kMediumSlots; ++count) {
    allocate_some(count);
    EXPECT_EQ(kept(), (kMediumSlots - count) * kLength);
    free_all();
    EXPECT_EQ(kept(), kMediumSlots * kLength);
  }
}

TEST_F(MediumCacheTest, KeptBytesAreZeroForCalloc) {
  auto* p = static_cast<char*>(allocate(kSize));
  __builtin_memset(p, 1, kSize);
  deallocate(p);
  void* zeroed = allocate_zeroed(kSize);
  EXPECT_EQ(zeroed, p);
  EXPECT_TRUE(test::reads_zero(zeroed, kSize));
  deallocate(zeroed);
}

TEST_F(MediumCacheTest, AThreadThatOnlyFreesKeepsNothing) {
  std::vector<void*> objects;
  for (int i = 0; i < 8; ++i) objects.push_back(allocate(100'000));
  in_thread([&] {
    deallocate(allocate(16));
    for (void* p : objects) deallocate(p);
    EXPECT_EQ(kept(), 0u);
  });
}

TEST_F(MediumCacheTest, KeepsNoMoreThanItsPlacesAndItsBudget) {
  std::vector<void*> objects;
  for (unsigned i = 0; i < 2 * kMediumSlots; ++i) objects.push_back(allocate(40'000));
  const size_t usable = usable_size(objects[0]);
  for (void* p : objects) deallocate(p);
  EXPECT_EQ(kept(), kMediumSlots * usable);
}

TEST_F(MediumCacheTest, TheBudgetIsTheOption) {
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

TEST_F(MediumCacheTest, VeryLongOnesAreNotKept) {
  void* p = allocate(kMediumMax + 1);
  deallocate(p);
  EXPECT_EQ(kept(), 0u);
}

// A small program keeps little.
TEST_F(MediumCacheTest, TheBudgetGrowsWithTheHeap) {
  std::vector<void*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(allocate(500'000));
  const size_t usable = usable_size(objects[0]);
  for (size_t i = 0; i < 20; ++i) deallocate(objects[i]);
  EXPECT_EQ(kept() / usable, self->heap->counters().medium_out.get() / 16 / usable);
  for (size_t i = 20; i < 100; ++i) deallocate(objects[i]);
  EXPECT_LE(kept() / usable, (size_t{1} << 20) / usable + 1);
}

TEST_F(MediumCacheTest, AnUnusedOneGivesBackAtItsReview) {
  void* p = allocate(kSize);
  deallocate(p);
  deallocate(allocate(kSize));
  medium_cache::review(self);
  EXPECT_NE(kept(), 0u) << "used since";
  medium_cache::review(self);
  EXPECT_EQ(kept(), 0u);
}

// The object freed last goes, too, if the thread goes on without such objects.
TEST_F(MediumCacheTest, TheBinIsReviewed) {
  watch_no_more();
  deallocate(allocate(kSize));
  EXPECT_NE(*self->recent.top(), nullptr);
  for (int i = 0; i < 2; ++i) medium_cache::review(self);
  EXPECT_EQ(kept(), 0u);
  void* p = allocate(kMediumMax);
  deallocate(p);
  EXPECT_NE(*self->recent.top(), nullptr);
  medium_cache::review(self);
  EXPECT_EQ(kept(), 0u) << "longer than what a place may hold";
}

// A program that goes on with one buffer does not keep those of other sizes for it.
TEST_F(MediumCacheTest, AReviewLeavesWhatIsUsed) {
  void* one = allocate(kSize);
  void* other = allocate(kSize / 2);
  const size_t usable = usable_size(one);
  deallocate(other);
  deallocate(one);
  for (int i = 0; i < 2; ++i) {
    deallocate(allocate(kSize));
    medium_cache::review(self);
  }
  EXPECT_EQ(kept(), usable);
}

TEST_F(MediumCacheTest, TrimAndTheThreadsEndGiveBack) {
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

// Kept, put out by another, too long to be kept, or given back at last.
TEST_F(MediumCacheTest, TheThreadsBytesKnowEachWayBack) {
  const auto net = [] {
    ptrdiff_t bytes = 0;
    EXPECT_TRUE(read_net_bytes(&bytes));
    return bytes;
  };
  const ptrdiff_t before = net();
  std::vector<void*> objects;
  for (unsigned i = 0; i <= kMediumSlots; ++i) objects.push_back(allocate(kSize));
  objects.push_back(allocate(3'900'000));
  EXPECT_GE(net() - before, static_cast<ptrdiff_t>(kSize * objects.size()));
  for (void* p : objects) deallocate(p);
  EXPECT_EQ(net(), before);
  medium_cache::release_all(self);
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(net(), before);
}

// It may have died between keeping an object and counting it.
TEST_F(MediumCacheTest, OfAThreadThatDiedInAForkNothingCounts) {
  std::atomic<int> state{0};
  ThreadCache* other = nullptr;
  std::thread thread([&] {
    deallocate(allocate(kSize));
    other = self;
    self->counters.medium_kept_bytes.add(5000);
    state.store(1);
    state.notify_all();
    state.wait(1);
    self->counters.medium_kept_bytes.add(size_t{0} - 5000);
  });
  state.wait(0);
  EXPECT_TRUE(test::child_passes([&] { return other->counters.medium_kept_bytes.get() == 0; }));
  state.store(2);
  state.notify_all();
  thread.join();
}

TEST_F(MediumCacheTest, AKeptObjectIsNoObject) {
  void* p = allocate(kSize);
  EXPECT_EQ(object_of(p).start, p);
  deallocate(p);
  EXPECT_EQ(object_of(p).start, nullptr);
  EXPECT_DEATH(deallocate(p), "free of a pointer to memory that is not allocated .*: 0x");
}

}  // namespace
}  // namespace loft
