// Heaps of the program's own: where their memory comes from and goes to, and what they refuse.
#include "heaps/user_heap.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/object.h"
#include "malloc/allocate.h"
#include "os/limits.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::number;

class UserHeapTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    heap_ = UserHeap::create();
    ASSERT_NE(heap_, nullptr);
  }
  void TearDown() override {
    heap_->check();
    heap_->destroy();
  }

  void* allocate(size_t size, size_t alignment = kAlignment, bool zeroed = false) {
    return heap_->allocate(size, alignment, zeroed);
  }
  void free(void* p) { heap_->free("free", p); }
  size_t capacity() const { return heap_->totals().capacity_bytes; }
  static void tick(unsigned times) {
    for (unsigned i = 0; i < times; ++i) span::idle_bytes();
  }

  UserHeap* heap_ = nullptr;
};

TEST_F(UserHeapTest, HasNothingBeforeItIsAsked) {
  EXPECT_EQ(capacity(), 0u);
  void* p = allocate(1);
  EXPECT_EQ(capacity(), kGranule);
  free(p);
}

TEST_F(UserHeapTest, TenSizesInOneGranule) {
  std::vector<void*> objects;
  for (size_t size = 16; size <= 512; size += 48) objects.push_back(allocate(size));
  EXPECT_EQ(capacity(), kGranule);
  for (void* p : objects) free(p);
}

TEST_F(UserHeapTest, ExtentsGrowWithIt) {
  std::vector<void*> objects;
  size_t extents = 0;
  size_t before = 0;
  while (capacity() < size_t{64} << 20) {
    objects.push_back(allocate(64 << 10));
    if (capacity() != before) ++extents;
    before = capacity();
  }
  EXPECT_LT(extents, 60u);
  EXPECT_GT(heap_->totals().live_bytes, capacity() * 9 / 10);
  for (void* p : objects) free(p);
  EXPECT_LE(capacity(), size_t{2} << 20) << "one empty extent is kept";
}

TEST_F(UserHeapTest, LongObjectsHaveAnExtentToThemselves) {
  const size_t window = span::totals().dirty + span::totals().clean;
  void* p = allocate(3'000'000);
  EXPECT_EQ(capacity(), round_up(3'000'000, kGranule));
  EXPECT_EQ(heap_->usable_size("test", p), round_up(3'000'000, os::page_size()));
  void* q = allocate(1, size_t{1} << 20);
  EXPECT_EQ(number(q) % (size_t{1} << 20), 0u);
  EXPECT_EQ(heap_->totals().live_objects, 2u);
  free(q);
  free(p);
  EXPECT_EQ(capacity(), 0u);
  EXPECT_EQ(heap_->totals().live_bytes, 0u);
  EXPECT_GE(span::totals().dirty + span::totals().clean, window);
}

TEST_F(UserHeapTest, ALongObjectThatGrewInPlaceIsFoundFromAnywhereInIt) {
  // Extents of two megabytes, and room in the last one.
  std::vector<void*> objects;
  while (capacity() < size_t{8} << 20) objects.push_back(allocate(400'000));
  void* p = objects.back();
  void* grown = heap_->reallocate("test", p, 1 << 20);
  ASSERT_EQ(grown, p) << "or the test says nothing";
  for (size_t at = 0; at < 1 << 20; at += 5000) {
    const ObjectRange range = object_of(static_cast<char*>(p) + at);
    ASSERT_EQ(range.start, p) << at;
    ASSERT_GE(range.size, size_t{1} << 20);
  }
  for (void* object : objects) free(object);
}

TEST_F(UserHeapTest, ZeroedObjects) {
  for (const size_t size : {100u, 5'000u, 200'000u, 700'000u, 5'000'000u}) {
    for (int round = 0; round < 3; ++round) {
      void* p = allocate(size, kAlignment, true);
      EXPECT_TRUE(test::reads_zero(p, size / 8 * 8)) << size;
      memset(p, 1, size);
      free(p);
    }
  }
}

TEST_F(UserHeapTest, TheUsualFunctionsKnowItsObjects) {
  for (const size_t size : {1u, 100u, 1'000u, 5'000u, 400'000u, 600'000u, 3'000'000u}) {
    auto* p = static_cast<char*>(allocate(size));
    const size_t usable = usable_size(p);
    EXPECT_GE(usable, size);
    EXPECT_EQ(usable, heap_->usable_size("test", p));
    for (const size_t at : {size_t{0}, size / 2, size - 1, usable - 1}) {
      EXPECT_EQ(object_of(p + at).start, p);
      EXPECT_EQ(object_of(p + at).size, usable);
    }
    memset(p, 0x5a, size);
    p = static_cast<char*>(reallocate(p, size * 3));
    EXPECT_TRUE(heap_->contains(p)) << "it stays in its heap";
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(p[i], 0x5a);
    deallocate(p);
  }
  EXPECT_EQ(heap_->totals().live_objects, 0u);
}

TEST_F(UserHeapTest, KnowsWhatIsItsOwn) {
  UserHeap* other = UserHeap::create();
  void* mine = allocate(100);
  void* others = other->allocate(100, kAlignment, false);
  void* nobodys = loft::allocate(100);
  int local = 0;
  EXPECT_TRUE(heap_->contains(mine));
  EXPECT_TRUE(heap_->contains(address(number(mine) + 99)));
  for (const void* p : {others, nobodys, static_cast<void*>(&local), static_cast<void*>(nullptr)}) {
    EXPECT_FALSE(heap_->contains(p));
  }
  deallocate(nobodys);
  free(mine);
  other->destroy();
}

TEST_F(UserHeapTest, WhereThreadsMeetThereIsOneMore) {
  const auto shard_of = [](const void* p) { return Shard::of(Shard::extent_at(pagemap.of(p))); };
  void* p = allocate(100);
  {
    // As if another thread were in the midst of a call.
    const os::Guard guard(shard_of(p)->lock());
    void* q = allocate(100);
    EXPECT_NE(shard_of(q), shard_of(p));
    EXPECT_TRUE(heap_->contains(q));
    free(q);
  }
  free(p);
}

// ---- What goes back.

TEST_F(UserHeapTest, DestroyingGivesEverythingBack) {
  const auto fill_and_destroy = [] {
    UserHeap* heap = UserHeap::create();
    std::mt19937 random(5);
    for (int i = 0; i < 20'000; ++i) {
      void* p = heap->allocate(random() % (i % 100 == 0 ? 1'000'000 : 3'000), kAlignment, false);
      if (random() % 3 == 0) heap->free("test", p);
    }
    heap->destroy();
  };
  // The first ones leave the window in parts that are resident and parts that are not.
  for (int i = 0; i < 3; ++i) fill_and_destroy();
  const size_t window = span::used_bytes();
  const size_t metadata_before = metadata::used_bytes();
  const size_t free_before = span::totals().dirty + span::totals().clean;
  for (int i = 0; i < 5; ++i) fill_and_destroy();
  EXPECT_EQ(span::used_bytes(), window);
  EXPECT_EQ(span::totals().dirty + span::totals().clean, free_before);
  EXPECT_EQ(metadata::used_bytes(), metadata_before);
}

TEST_F(UserHeapTest, ManyHeapsOneAfterAnother) {
  const auto one = [] {
    UserHeap* heap = UserHeap::create();
    memset(heap->allocate(100, kAlignment, false), 1, 100);
    heap->destroy();
  };
  one();
  const size_t window = span::used_bytes();
  const size_t used = metadata::used_bytes();
  for (int i = 0; i < 100'000; ++i) one();
  EXPECT_EQ(span::used_bytes(), window);
  EXPECT_EQ(metadata::used_bytes(), used);
}

// Of the pages that lie wholly in the objects.
size_t resident(const std::vector<char*>& objects, size_t bytes) {
  const size_t page = os::page_size();
  size_t pages = 0;
  for (const char* p : objects) {
    const uintptr_t first = round_up(number(p), page);
    const uintptr_t last = round_down(number(p) + bytes, page);
    std::vector<unsigned char> in_core((last - first) / page);
    // What a purge has unmapped is not resident.
    if (mincore(address(first), last - first, in_core.data()) != 0) {
      EXPECT_EQ(errno, ENOMEM);
      continue;
    }
    for (const unsigned char flags : in_core) pages += flags & 1;
  }
  return pages * page;
}

TEST_F(UserHeapTest, PagesThatNobodyNeededForAWhileGoBack) {
  constexpr size_t kBytes = 50'000;
  std::vector<char*> freed;
  std::vector<void*> kept;
  for (int i = 0; i < 200; ++i) {
    freed.push_back(static_cast<char*>(allocate(kBytes)));
    memset(freed.back(), 1, kBytes);
    kept.push_back(allocate(kUnit * 5));
    memset(kept.back(), 2, kUnit * 5);
  }
  while (!UserHeap::purge_idle_of_all()) tick(span::kDecayTicks);
  for (char* p : freed) free(p);
  const size_t before = resident(freed, kBytes);
  EXPECT_GT(before, 200 * (kBytes - 3 * os::page_size()));
  tick(span::kDecayTicks);
  EXPECT_FALSE(UserHeap::purge_idle_of_all()) << "the first look only marks";
  EXPECT_FALSE(UserHeap::purge_idle_of_all()) << "too early for the second";
  EXPECT_EQ(resident(freed, kBytes), before);
  tick(span::kDecayTicks);
  EXPECT_TRUE(UserHeap::purge_idle_of_all());
  span::purge(0);  // an extent that was empty is the window's now
  EXPECT_EQ(resident(freed, kBytes), 0u);
  for (void* p : kept) {
    for (size_t i = 0; i < kUnit * 5; ++i) ASSERT_EQ(static_cast<char*>(p)[i], 2);
    free(p);
  }
  tick(span::kDecayTicks);
  while (!UserHeap::purge_idle_of_all()) tick(span::kDecayTicks);
  EXPECT_EQ(capacity(), 0u) << "the empty extents, too";
}

TEST_F(UserHeapTest, PurgingGivesItBackAtOnce) {
  constexpr size_t kBytes = 50'000;
  auto* p = static_cast<char*>(allocate(kBytes));
  void* q = allocate(100);
  memset(p, 1, kBytes);
  free(p);
  EXPECT_GE(trim(0), kBytes - 2 * os::page_size());
  EXPECT_EQ(resident({p}, kBytes), 0u);
  free(q);
  trim(0);
  EXPECT_EQ(capacity(), 0u);
}

// A lock, held by this thread, on which another one sleeps.
class AwaitedLock {
 public:
  AwaitedLock() {
    lock_.lock();
    waiting_ = std::thread([this] { const os::Guard guard(lock_); });
    while (!lock_.has_sleepers()) os::doze();
  }
  ~AwaitedLock() {
    lock_.unlock();
    waiting_.join();
  }
  AwaitedLock(const AwaitedLock&) = delete;
  AwaitedLock& operator=(const AwaitedLock&) = delete;

  const os::Lock& get() const { return lock_; }

 private:
  os::Lock lock_;
  std::thread waiting_;
};

TEST_F(UserHeapTest, APurgeStopsForWhoWaitsAndGoesOnFromThere) {
  constexpr size_t kBytes = 50'000;
  struct Objects {
    void* kept;  // the first of an extent
    std::vector<char*> freed;
  };
  std::map<const Extent*, Objects> held;
  std::vector<const Extent*> extents;  // newest last
  for (int i = 0; i < 400; ++i) {
    auto* p = static_cast<char*>(allocate(kBytes));
    memset(p, 1, kBytes);
    const Extent* extent = Shard::extent_at(pagemap.of(p));
    const auto [place, first] = held.try_emplace(extent, p);
    if (first) {
      extents.push_back(extent);
    } else {
      place->second.freed.push_back(p);
    }
  }
  const size_t count = extents.size();
  ASSERT_GE(count, 5u);
  for (const auto& [extent, objects] : held) {
    for (char* p : objects.freed) free(p);
  }

  Shard& shard = *Shard::of(extents.front());
  const AwaitedLock awaited;
  // False once the round is over.
  const auto step = [&](bool starts) {
    const os::Guard guard(shard.lock());
    if (starts) shard.start_round();
    size_t purged = 0;
    shard.purge(true, awaited.get(), purged);
    EXPECT_TRUE(shard.round_is_over() || shard.needs_purge());
    return !shard.round_is_over();
  };
  EXPECT_TRUE(step(true));
  EXPECT_EQ(resident(held[extents[count - 1]].freed, kBytes), 0u);
  EXPECT_NE(resident(held[extents[count - 2]].freed, kBytes), 0u);
  // The one to go on from leaves: as the second of two that become empty, for one would be kept.
  for (const size_t index : {count - 3, count - 2}) {
    free(held[extents[index]].kept);
    held.erase(extents[index]);
  }
  size_t steps = 2;
  while (step(false)) ++steps;
  EXPECT_EQ(steps, count - 1) << "one for each";
  for (const auto& [extent, objects] : held) {
    EXPECT_EQ(resident(objects.freed, kBytes), 0u);
    free(objects.kept);
  }
}

TEST_F(UserHeapTest, CountsInTheTotals) {
  const UserHeap::Sums before = UserHeap::sums_of_all();
  const size_t in_use = span::counted() - span::totals().dirty;
  void* p = allocate(1000);
  void* q = allocate(1'000'000);
  const UserHeap::Sums with = UserHeap::sums_of_all();
  EXPECT_EQ(with.heaps, before.heaps);
  EXPECT_GE(with.live_bytes, before.live_bytes + 1'001'000);
  EXPECT_EQ(span::counted() - span::totals().dirty, in_use + capacity());
  free(p);
  free(q);
}

// ---- Over a region.

class RegionTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = size_t{16} << 20;
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    region_ = static_cast<char*>(os::reserve(kBytes));
    ASSERT_NE(region_, nullptr);
  }
  void TearDown() override { os::unmap(region_, kBytes); }

  // Anybody who touched a byte of it would end.
  char* region_ = nullptr;
};

TEST_F(RegionTest, IsNeverTouched) {
  const size_t counted = span::counted();
  UserHeap* heap = UserHeap::create_over(number(region_), kBytes);
  ASSERT_NE(heap, nullptr);
  std::mt19937 random(1);
  std::vector<void*> objects;
  for (int i = 0; i < 200'000; ++i) {
    void* p = heap->allocate(random() % (i % 50 == 0 ? 50'000 : 500), kAlignment, false);
    if (p != nullptr) objects.push_back(p);
    while (p == nullptr || objects.size() > 20'000) {
      std::swap(objects[random() % objects.size()], objects.back());
      heap->free("test", objects.back());
      objects.pop_back();
      if (p == nullptr) break;
    }
    if (i % 100 == 0) {
      // In place, as far as that can be: shrinking always can.
      void* last = objects.back();
      EXPECT_EQ(heap->reallocate("test", last, heap->usable_size("test", last) / 3 + 1), last);
    }
    if (i % 1000 == 0) {
      UserHeap::purge_idle_of_all();
      UserHeap::purge_all();
    }
  }
  heap->check();
  EXPECT_EQ(heap->totals().capacity_bytes, kBytes);
  EXPECT_EQ(span::counted(), counted);
  heap->destroy();
}

TEST_F(RegionTest, OfAnyPlaceAndLength) {
  for (uintptr_t skip = 0; skip < 600; skip += 37) {
    for (size_t bytes = 0; bytes < 3000; bytes += 101) {
      const uintptr_t base = number(region_) + skip;
      const size_t units = UserHeap::units_in(base, bytes);
      EXPECT_EQ(units, round_down(base + bytes, kUnit) < round_up(base, kUnit)
                           ? 0
                           : (round_down(base + bytes, kUnit) - round_up(base, kUnit)) / kUnit);
      if (units == 0) continue;
      UserHeap* heap = UserHeap::create_over(base, bytes);
      ASSERT_NE(heap, nullptr);
      for (size_t i = 0; i < units; ++i) {
        void* p = heap->allocate(kUnit / 2 + 1, kUnit, false);
        ASSERT_NE(p, nullptr);
        ASSERT_GE(number(p), base);
        ASSERT_LE(number(p) + kUnit, base + bytes);
      }
      EXPECT_EQ(heap->allocate(1, 1, false), nullptr);
      heap->destroy();
    }
  }
}

TEST_F(RegionTest, SaysWhenItIsFullAndGoesOn) {
  UserHeap* heap = UserHeap::create_over(number(region_), kBytes);
  std::vector<void*> objects;
  for (void* p = nullptr; (p = heap->allocate(100, kAlignment, false)) != nullptr;) {
    objects.push_back(p);
  }
  EXPECT_GT(objects.size(), kBytes / 113);
  EXPECT_EQ(heap->allocate(1, kAlignment, false), nullptr);
  EXPECT_EQ(heap->reallocate("test", objects[0], 1000), nullptr);
  for (void* p : objects) heap->free("test", p);
  void* all = heap->allocate(kBytes, kAlignment, false);
  EXPECT_EQ(all, region_) << "rows that are empty are no hindrance";
  heap->free("test", all);
  heap->destroy();
}

// A region of a size that no machine has; what describes it is not touched either.
TEST_F(RegionTest, ALongOneCostsWhatIsUsed) {
  constexpr size_t kLong = size_t{1} << 37;
  void* region = os::reserve(kLong);
  if (region == nullptr) GTEST_SKIP() << "no address space";
  UserHeap* heap = UserHeap::create_over(number(region), kLong);
  ASSERT_NE(heap, nullptr);
  void* p = heap->allocate(size_t{1} << 36, size_t{1} << 21, false);
  ASSERT_NE(p, nullptr);
  void* q = heap->allocate(100, kAlignment, false);
  EXPECT_EQ(heap->usable_size("test", p), size_t{1} << 36);
  heap->free("test", p);
  heap->free("test", q);
  heap->check();
  heap->destroy();
  os::unmap(region, kLong);
}

// ---- Misuse.

using UserHeapDeathTest = UserHeapTest;
using RegionDeathTest = RegionTest;

TEST_F(UserHeapDeathTest, StopsTheProgram) {
  for (const size_t size : {100u, 5'000u}) {
    auto* p = static_cast<char*>(allocate(size));
    auto* q = static_cast<char*>(allocate(size));
    EXPECT_DEATH(free(p + 16), "free of an interior pointer 0x[0-9a-f]+: object 0x[0-9a-f]+ of ");
    EXPECT_DEATH(deallocate(p + 16), "free of an interior pointer");
    EXPECT_DEATH(usable_size(p + 16), "malloc_usable_size of an interior pointer");
    EXPECT_DEATH((void)reallocate(p + 16, 10), "realloc of an interior pointer");
    free(p);
    EXPECT_DEATH(free(p), size == 100 ? "double free of 0x" : "not allocated");
    EXPECT_DEATH(deallocate(p), size == 100 ? "double free of 0x" : "not allocated");
    EXPECT_DEATH((void)reallocate(p, 10),
                 size == 100 ? "realloc of a free object 0x" : "not allocated");
    free(q);
  }
  void* alone = allocate(3'000'000);
  EXPECT_DEATH(deallocate(static_cast<char*>(alone) + 4096), "free of an interior pointer");
  free(alone);
  EXPECT_DEATH(free(alone), "free of a foreign pointer .not from this heap.");
  EXPECT_DEATH(deallocate(alone), "not allocated");
  int local = 0;
  EXPECT_DEATH(free(&local), "free of a foreign pointer .not from this heap.");
  void* p = loft::allocate(100);
  EXPECT_DEATH(free(p), "free of a foreign pointer .not from this heap.");
  deallocate(p);
}

TEST_F(UserHeapDeathTest, ForeignPointersCanBeIgnored) {
  const test::DefaultOptions defaults;
  options.misuse.store(1);
  int local = 0;
  free(&local);
  EXPECT_EQ(heap_->usable_size("test", &local), 0u);
  EXPECT_EQ(heap_->reallocate("test", &local, 10), nullptr);
}

TEST_F(RegionDeathTest, StopsTheProgram) {
  UserHeap* heap = UserHeap::create_over(number(region_), kBytes);
  auto* p = static_cast<char*>(heap->allocate(100, kAlignment, false));
  auto* q = static_cast<char*>(heap->allocate(5'000, kAlignment, false));
  EXPECT_DEATH(heap->free("free", p + 1), "free of an interior pointer");
  EXPECT_DEATH(heap->free("free", q + 256), "free of an interior pointer");
  heap->free("free", p);
  EXPECT_DEATH(heap->free("free", p), "double free of");
  EXPECT_DEATH(heap->free("free", region_ + kBytes / 2), "not allocated");
  EXPECT_DEATH(heap->free("free", region_ + kBytes), "foreign pointer .not from this heap.");
  EXPECT_DEATH(deallocate(q),
               "free of a pointer into a region, whose objects loft_heap_free takes");
  heap->destroy();
}

}  // namespace
}  // namespace loft
