// Medium objects: their place in runs, who gets them back, and what their pages hold.
#include "slab/medium_runs.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "cache/medium_cache.h"
#include "cache/object.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "os/limits.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::in_thread;
using test::number;

constexpr size_t kPage = 4096;

class MediumRunsTest : public testing::Test {
 protected:
  void SetUp() override {
    deallocate(allocate(16));
    trim(0);
    medium_cache::reset(self);  // the first frees are checked at once
  }
  void TearDown() override {
    trim(0);
    const os::Guard guard(self->heap->lock());
    self->heap->check();
  }

  static Heap& heap() { return *self->heap; }
  static void* take(size_t bytes) {
    bool zero = false;
    const os::Guard guard(heap().lock());
    return heap().take_medium(bytes, false, &zero);
  }
  static void put(void* p) {
    const os::Guard guard(heap().lock());
    medium::run_at(pagemap.of(p))->word_at(p).keep();
    heap().put_medium(p);
  }
  static MediumRun* run_of(const void* p) { return medium::run_at(pagemap.of(p)); }
  static size_t out() { return heap().counters().medium_out.get(); }
  static bool resident(const void* p) {
    unsigned char is = 0;
    return mincore(const_cast<void*>(p), kPage, &is) == 0 && (is & 1) != 0;
  }

  test::DefaultOptions defaults_;
};

// An object's word has its pages and what was asked for; of very many pages more, not exactly.
TEST(MediumWordTest, SaysWhatWasAskedFor) {
  const Bound page(kPage);
  ASSERT_EQ(os::page_size(), kPage);
  for (const size_t asked : {kSmallMax + 1, 9 * kPage - 1, 9 * kPage, 10 * kPage, kMediumMax}) {
    MediumWord word{};
    EXPECT_FALSE(word.begins());
    EXPECT_FALSE(word.serves(asked, page));
    word.set(asked);
    EXPECT_TRUE(word.in_use());
    EXPECT_EQ(word.object().pages, (asked + kPage - 1) / kPage);
    EXPECT_EQ(word.object().asked, asked);
    EXPECT_FALSE(word.serves(asked + kPage, page) || word.serves(asked - kPage, page));
    EXPECT_FALSE(word.serves(asked, Bound(0)));
    EXPECT_TRUE(word.serves(asked, page));
    word.keep();
    EXPECT_FALSE(word.in_use());
    EXPECT_TRUE(word.begins());
    EXPECT_FALSE(word.serves(asked, page));
  }
  MediumWord word{};
  word.set(12, 9 * kPage);
  EXPECT_EQ(word.object().pages, 12u);
  EXPECT_EQ(word.object().asked, 9 * kPage);
  EXPECT_FALSE(word.object().vague || word.serves(9 * kPage, page));
  word.set(1);  // of a sample
  EXPECT_EQ(word.object().asked, 1u);
  EXPECT_FALSE(word.serves(1, page));
  word.set_gap(MediumWord::kMostMore << 24 | 1u << 22);
  EXPECT_FALSE(word.begins());
  EXPECT_EQ(word.object().pages, 0u);
}

// Whatever a word is, a request equals it in all bits; if it is too long, or the word has others,
// it finds nothing.
TEST(MediumWordTest, ServesNothingByItsOtherFields) {
  const Bound page(kPage);
  ASSERT_EQ(os::page_size(), kPage);
  constexpr size_t kAsked = 9 * kPage;
  for (unsigned fields = 1; fields < 1u << 10; ++fields) {
    MediumWord word{};
    const uint32_t bits = fields << 22 | static_cast<uint32_t>(kAsked - 1);
    word.set_gap(bits);
    if (fields >> 9 == 0) {
      word.clear();
      if ((fields & 1) == 0) continue;
      word.set(9 + (fields >> 2), kAsked);
      if ((fields & 2) != 0) word.keep();
    }
    const size_t asked = bits - (size_t{1} << 22) + 1;
    EXPECT_EQ(word.serves(asked, page), fields == 1) << fields;
    EXPECT_FALSE(word.serves(asked + (size_t{1} << 32), page)) << fields;
  }
}

// Where the system's pages are longer, too, it is known that what was asked for is not known.
TEST(MediumWordTest, KnowsWhatIsVague) {
  const size_t page = os::page_size();
  for (const size_t other : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10}) {
    os::known_page_size.store(other, memory_order_relaxed);
    const auto in_page = static_cast<unsigned>(other / kRunPage);
    for (unsigned pages = in_page; pages <= kMediumMax / kRunPage; pages += in_page) {
      for (const size_t asked : {size_t{1}, size_t{100'000}, pages * kRunPage}) {
        if (asked > pages * kRunPage) continue;
        MediumWord word{};
        word.set(pages, asked);
        const MediumWord::Object object = word.object();
        ASSERT_EQ(object.pages, pages);
        ASSERT_TRUE(object.asked == asked || (object.asked > asked && object.vague)) << pages;
      }
    }
  }
  os::known_page_size.store(page, memory_order_relaxed);
}

TEST_F(MediumRunsTest, ObjectsTakeTheirPagesAndNoMore) {
  void* first = take(9 * kPage);
  void* second = take(10 * kPage - 5);
  void* third = take(kMediumMax);
  EXPECT_EQ(number(second) - number(first), 9 * kPage);
  EXPECT_EQ(number(third) - number(second), 10 * kPage);
  EXPECT_EQ(usable_size(second), 10 * kPage);
  EXPECT_EQ(run_of(first), run_of(third));
  EXPECT_EQ(object_of(static_cast<char*>(second) + 30'000).start, second);
  EXPECT_EQ(object_of(static_cast<char*>(third) + kMediumMax).start, nullptr);
  for (void* p : {first, second, third}) deallocate(p);
}

// The shortest gap that suffices, wherever it is.
TEST_F(MediumRunsTest, AnObjectFillsTheGapThatFits) {
  std::vector<void*> all;
  for (const size_t pages : {20, 9, 30, 9, 12, 9, 40, 9}) all.push_back(take(pages * kPage));
  for (const size_t i : {0, 2, 4, 6}) put(all[i]);
  EXPECT_EQ(take(11 * kPage), all[4]);
  EXPECT_EQ(take(30 * kPage), all[2]);
  EXPECT_EQ(take(20 * kPage), all[0]);
  EXPECT_EQ(take(31 * kPage), all[6]);
  for (const size_t i : {0, 2, 4, 6, 1, 3, 5, 7}) put(all[i]);
  EXPECT_EQ(out(), 0u);
}

TEST_F(MediumRunsTest, NeighboursJoin) {
  for (const unsigned order : {0, 1, 2, 3, 4, 5}) {
    std::vector<void*> all;
    for (int i = 0; i < 4; ++i) all.push_back(take(100 * kPage));
    std::vector<int> freed = {0, 1, 2};
    for (unsigned i = 0; i < order; ++i) std::next_permutation(freed.begin(), freed.end());
    for (const int i : freed) put(all[static_cast<size_t>(i)]);
    void* whole = take(300 * kPage);
    EXPECT_EQ(whole, all[0]);
    put(whole);
    put(all[3]);
  }
}

// A model of many objects at random. The tables tile each run at every step (debug builds).
TEST_F(MediumRunsTest, ObjectsNeverOverlap) {
  std::mt19937 random(7);
  std::map<uintptr_t, size_t> live;
  std::vector<void*> objects;
  for (int i = 0; i < 4000; ++i) {
    if (objects.size() < 100 || random() % 2 == 0) {
      const size_t bytes = kSmallMax + 1 + random() % (random() % 8 == 0 ? kMediumMax : 300'000);
      if (!is_medium(bytes)) continue;
      void* p = take(bytes);
      ASSERT_NE(p, nullptr);
      const auto after = live.upper_bound(number(p));
      ASSERT_TRUE(after == live.end() || number(p) + bytes <= after->first);
      ASSERT_TRUE(after == live.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= number(p));
      live[number(p)] = bytes;
      objects.push_back(p);
    } else {
      std::swap(objects[random() % objects.size()], objects.back());
      live.erase(number(objects.back()));
      put(objects.back());
      objects.pop_back();
    }
    if (kDebug) heap().check();
  }
  for (void* p : objects) put(p);
  EXPECT_EQ(out(), 0u);
}

TEST_F(MediumRunsTest, ASteadyStateMeetsNoSharedLock) {
  std::mt19937 random(7);
  std::vector<void*> objects;
  const auto replace = [&](void*& p) {
    deallocate(p);
    p = allocate(kSmallMax + 1 + random() % ((size_t{1} << 20) - kSmallMax));
  };
  objects.resize(200);
  for (int i = 0; i < 20'000; ++i) replace(objects[random() % objects.size()]);
  const unsigned long locks = span::totals().locks + metadata::locks();
  const os::Calls calls = os::calls();
  for (int i = 0; i < 20'000; ++i) replace(objects[random() % objects.size()]);
  // The runs may still grow, or one become empty, now and then.
  EXPECT_LT(span::totals().locks + metadata::locks(), locks + 100);
  EXPECT_LT(os::calls().maps + os::calls().discards, calls.maps + calls.discards + 20);
  for (void* p : objects) deallocate(p);
}

// One thread allocates, the other frees: the objects come home by message.
TEST_F(MediumRunsTest, ObjectsComeHomeByMessage) {
  constexpr int kObjects = 64;
  void* objects[kObjects];
  const auto round = [&] {
    for (void*& p : objects) {
      p = allocate(100'000);
      std::memset(p, 1, 100'000);
    }
    in_thread([&] {
      for (void* p : objects) deallocate(p);
    });
  };
  for (int i = 0; i < 4; ++i) round();
  const size_t received = heap().counters().medium_received.get();
  const unsigned long locks = span::totals().locks;
  const size_t pages = heap().mediums().pages();
  for (int i = 0; i < 16; ++i) round();
  EXPECT_EQ(heap().mediums().pages(), pages);
  EXPECT_GE(heap().counters().medium_received.get() - received, 15u * kObjects * 100'000);
  // Each thread that starts and ends meets it a few times for its own block.
  EXPECT_LT(span::totals().locks - locks, 16u * 8);
  trim(0);
  EXPECT_EQ(out(), 0u);
}

TEST_F(MediumRunsTest, AThreadsRunsServeOthersAfterItsEnd) {
  const size_t before = out();
  void* left = nullptr;
  MediumRun* run = nullptr;
  in_thread([&] {
    left = allocate(100'000);
    run = run_of(left);
    deallocate(allocate(200'000));
  });
  // Another thread would adopt the heap as a whole.
  std::vector<void*> mine;
  while (mine.size() < 1000 && (mine.empty() || run_of(mine.back()) != run)) {
    mine.push_back(take(500'000));
    if (mine.size() == 1) continue;
  }
  EXPECT_EQ(run_of(mine.back()), run);
  EXPECT_EQ(pagemap.of(left).owner(), heap().id());
  // The object that came along counts here now: the cache's budget is a share of what does.
  EXPECT_GE(out() - before, mine.size() * 500'000 + 100'000);
  for (void* p : mine) put(p);
  deallocate(left);
  trim(0);
  EXPECT_EQ(out(), before);
}

// A heap without calls gives a run away whose memory is half free or more, the objects with it; not
// one that is mostly in use.
TEST_F(MediumRunsTest, AnIdleHeapsFreeMemoryServesOthers) {
  constexpr int kObjects = 16;
  constexpr size_t kBytes = 100 * kPage;
  Heap* other = nullptr;
  ASSERT_NE(registry::adopt(other), nullptr);
  void* objects[kObjects];
  bool zero = false;
  for (void*& p : objects) {
    const os::Guard guard(other->lock());
    p = other->take_medium(kBytes, false, &zero);
  }
  MediumRun* const run = run_of(objects[0]);
  ASSERT_EQ(run, run_of(objects[kObjects - 1]));
  const auto put_others = [&](int first, int end) {
    const os::Guard guard(other->lock());
    for (int i = first; i < end; ++i) {
      run->word_at(objects[i]).keep();
      other->put_medium(objects[i]);
    }
  };
  const auto take_over = [&] {
    const os::Guard guard(heap().lock());
    const os::Guard others(other->lock());
    return heap().take_run_over(*other, 100);
  };
  put_others(0, kObjects / 2 - 1);
  EXPECT_FALSE(take_over()) << "more than half is in use";
  put_others(kObjects / 2 - 1, kObjects / 2);
  const size_t before = out();
  const size_t others_before = other->counters().medium_out.get();
  EXPECT_TRUE(take_over());
  EXPECT_EQ(pagemap.of(objects[kObjects - 1]).owner(), heap().id());
  EXPECT_EQ(out() - before, kObjects / 2 * kBytes);
  EXPECT_EQ(others_before - other->counters().medium_out.get(), kObjects / 2 * kBytes);
  {
    const os::Guard guard(other->lock());
    other->check();
  }
  registry::abandon(other);
  void* const mine = take(kBytes);
  EXPECT_EQ(run_of(mine), run);
  put(mine);
  for (int i = kObjects / 2; i < kObjects; ++i) put(objects[i]);
}

// A heap that is idle may have many gaps in runs that are mostly in use. Whoever needs a run looks
// at few of them, and at all only if there is a run without objects.
TEST_F(MediumRunsTest, FewGapsOfAnIdleHeapAreLookedAt) {
  constexpr unsigned kShort = 9;
  constexpr unsigned kLong = 100;
  Heap* other = nullptr;
  ASSERT_NE(registry::adopt(other), nullptr);
  const auto taken = [&](size_t objects, unsigned pages) {
    std::vector<void*> all(objects);
    bool zero = false;
    const os::Guard guard(other->lock());
    for (void*& p : all) p = other->take_medium(pages * kPage, false, &zero);
    return all;
  };
  const auto put_in_other = [&](void* p) {
    const os::Guard guard(other->lock());
    run_of(p)->word_at(p).keep();
    other->put_medium(p);
  };
  const auto take_over = [&](unsigned pages) {
    const os::Guard guard(heap().lock());
    const os::Guard others(other->lock());
    return heap().take_run_over(*other, pages);
  };
  std::vector<void*> used = taken(kMostRunPages / kShort, kShort);
  const std::vector<void*> half = taken(16, kLong);
  ASSERT_EQ(run_of(used.front()), run_of(used.back()));
  ASSERT_EQ(run_of(half.front()), run_of(half.back()));
  ASSERT_NE(run_of(half.front()), run_of(used.front()));
  for (size_t i = 0; i < 100; ++i) {
    put_in_other(used[i]);
    used.erase(used.begin() + static_cast<long>(i));  // so the next one stays
  }
  for (size_t i = 0; i < 8; ++i) put_in_other(half[i]);
  EXPECT_FALSE(take_over(kShort)) << "a hundred gaps are shorter";
  EXPECT_TRUE(take_over(kLong));
  EXPECT_EQ(pagemap.of(half[8]).owner(), heap().id());
  for (size_t i = 8; i < 16; ++i) put(half[i]);
  const std::vector<void*> alone = taken(1, kLong);
  ASSERT_NE(run_of(alone[0]), run_of(used[0]));
  put_in_other(alone[0]);
  EXPECT_TRUE(take_over(kShort)) << "one is empty";
  EXPECT_EQ(pagemap.of(used[0]).owner(), other->id());
  for (void* p : used) put_in_other(p);
  {
    const os::Guard guard(other->lock());
    other->check();
  }
  registry::abandon(other);
}

// Nobody else may have a sampled object's run.
TEST_F(MediumRunsTest, TheHeapOfSamplesGivesNoRunAway) {
  Heap* const samples = registry::samples_heap();
  ASSERT_NE(samples, nullptr);
  const os::Guard guard(heap().lock());
  const os::Guard others(samples->lock());
  bool zero = false;
  void* const p = samples->take_medium(10 * kPage, false, &zero);
  ASSERT_NE(p, nullptr);
  run_of(p)->word_at(p).keep();
  samples->put_medium(p);
  EXPECT_FALSE(heap().take_run_over(*samples, 1)) << "though it is empty";
  EXPECT_NE(samples->mediums().pages(), 0u);
}

// The thread that allocated the objects goes on with what it keeps of them, and frees the others.
TEST_F(MediumRunsTest, AThreadWhoseRunIsTakenGoesOn) {
  constexpr int kObjects = 16;
  constexpr size_t kBytes = 100 * kPage;
  void* objects[kObjects];
  for (void*& p : objects) p = allocate(kBytes);
  for (int i = 0; i < kObjects * 3 / 4; ++i) deallocate(objects[i]);
  Heap* other = nullptr;
  ASSERT_NE(registry::adopt(other), nullptr);
  {
    const os::Guard guard(other->lock());
    const os::Guard own(heap().lock());
    ASSERT_TRUE(other->take_run_over(heap(), 100));
  }
  const auto is_others = [&](const void* p) { return pagemap.of(p).owner() == other->id(); };
  void* const kept = allocate(kBytes);
  EXPECT_TRUE(is_others(kept));
  void* last = objects[kObjects - 1];
  EXPECT_TRUE(is_others(last));
  std::memset(last, 7, kBytes);
  // There is room behind it, which is the other heap's to give.
  last = reallocate(last, 2 * kBytes);
  EXPECT_FALSE(is_others(last));
  EXPECT_EQ(static_cast<char*>(last)[kBytes - 1], 7);
  for (int i = kObjects * 3 / 4; i < kObjects - 1; ++i) deallocate(objects[i]);
  deallocate(kept);
  deallocate(last);
  trim(0);
  {
    const os::Guard guard(other->lock());
    other->drain_all();
    EXPECT_EQ(other->counters().medium_out.get(), 0u);
    other->check();
  }
  registry::abandon(other);
}

TEST_F(MediumRunsTest, CallocFindsUntouchedPages) {
  bool zero = false;
  void* p = nullptr;
  {
    const os::Guard guard(heap().lock());
    p = heap().take_medium(100 * kPage, false, &zero);
  }
  EXPECT_TRUE(zero);
  std::memset(p, 1, 100 * kPage);
  put(p);
  {
    const os::Guard guard(heap().lock());
    p = heap().take_medium(100 * kPage, false, &zero);
  }
  EXPECT_FALSE(zero);
  void* q = allocate_zeroed(100 * kPage);
  EXPECT_TRUE(test::reads_zero(q, 100 * kPage));
  put(p);
  deallocate(q);
}

TEST_F(MediumRunsTest, ReallocGrowsInPlace) {
  auto* p = static_cast<char*>(allocate(50 * kPage));
  p[0] = 7;
  void* grown = reallocate(p, 90 * kPage);
  EXPECT_EQ(grown, p) << "what lies behind is free";
  EXPECT_EQ(usable_size(p), 90 * kPage);
  void* behind = take(100 * kPage);
  EXPECT_EQ(number(behind) - number(p), 90 * kPage);
  void* moved = reallocate(p, 91 * kPage);
  EXPECT_NE(moved, p);
  EXPECT_EQ(static_cast<char*>(moved)[0], 7);
  EXPECT_EQ(reallocate(moved, 60 * kPage), moved);
  EXPECT_EQ(usable_size(moved), 60 * kPage);
  EXPECT_EQ(reallocate(moved, 91 * kPage), moved);
  deallocate(moved);
  deallocate(behind);
}

// An object that grows a page at a time is copied seldom.
TEST_F(MediumRunsTest, SlowGrowthIsCopiedSeldom) {
  std::vector<void*> others;
  char* p = nullptr;
  int copies = 0;
  for (size_t pages = 10; pages <= kMediumMax / kPage; ++pages) {
    void* grown = p == nullptr ? allocate(pages * kPage) : reallocate(p, pages * kPage);
    copies += p != nullptr && grown != p;
    p = static_cast<char*>(grown);
    if (pages % 16 == 0) others.push_back(allocate(9 * kPage));
  }
  EXPECT_LE(copies, 16);
  deallocate(p);
  for (void* other : others) deallocate(other);
}

// What was free at one round and is free at the next goes; what came between stays.
TEST_F(MediumRunsTest, GapsGoBackWithTime) {
  auto* kept = static_cast<char*>(take(10 * kPage));
  auto* old = static_cast<char*>(take(100 * kPage));
  auto* young = static_cast<char*>(take(100 * kPage));
  auto* end = static_cast<char*>(take(10 * kPage));
  for (char* p : {kept, old, young, end}) std::memset(p, 1, 10 * kPage);
  MediumRuns& runs = const_cast<MediumRuns&>(heap().mediums());
  put(old);
  {
    const os::Guard guard(heap().lock());
    EXPECT_EQ(runs.purge(MediumRuns::Round::kIdle, nullptr, nullptr, SIZE_MAX), 0u);
  }
  put(young);
  {
    const os::Guard guard(heap().lock());
    EXPECT_EQ(runs.purge(MediumRuns::Round::kIdle, nullptr, nullptr, SIZE_MAX), 100 * kPage);
  }
  EXPECT_FALSE(resident(old));
  EXPECT_TRUE(resident(young));
  EXPECT_TRUE(resident(kept));
  {
    const os::Guard guard(heap().lock());
    EXPECT_EQ(runs.purge(MediumRuns::Round::kAll, nullptr, nullptr, SIZE_MAX), 100 * kPage);
  }
  EXPECT_FALSE(resident(young));
  EXPECT_EQ(kept[0], 1);
  put(kept);
  put(end);
}

// Its thread goes on with what it has cached, and does not meet its heap.
TEST_F(MediumRunsTest, GapsOfABusyThreadGoBack) {
  void* p = take(100 * kPage);
  void* behind = take(10 * kPage);
  put(p);
  EXPECT_NE(heap().mediums().dirty_pages(), 0u);
  for (unsigned i = 0; i < 2 * span::kDecayTicks; ++i) {
    deallocate(allocate(kSmallMax + 1));
    deallocate(allocate(16));
    span::idle_bytes();
    size_t purged = 0;
    heap().look(false, 1, SIZE_MAX, &purged);
  }
  EXPECT_EQ(heap().mediums().dirty_pages(), 0u);
  put(behind);
}

// A purge that makes way for a waiting thread has not run to its end.
TEST_F(MediumRunsTest, APurgeCutShortIsNoneYet) {
  Heap* other = nullptr;
  registry::adopt(other);
  std::vector<void*> all;
  bool zero = false;
  other->lock().lock();
  other->purge(nullptr, Heap::Walk::kNow);
  for (int i = 0; i < 4; ++i) all.push_back(other->take_medium(10 * kPage, false, &zero));
  for (const size_t i : {0, 2}) {
    run_of(all[i])->word_at(all[i]).keep();
    other->put_medium(all[i]);
  }
  std::thread waiting([&] { const os::Guard guard(other->lock()); });
  while (!other->lock().has_sleepers()) std::this_thread::yield();
  other->purge(nullptr, Heap::Walk::kAtWorkNow);
  EXPECT_FALSE(other->is_purged());
  EXPECT_NE(other->mediums().dirty_pages(), 0u);
  other->lock().unlock();
  waiting.join();
  other->lock().lock();
  other->purge(nullptr, Heap::Walk::kAtWorkNow);
  EXPECT_TRUE(other->is_purged());
  EXPECT_EQ(other->mediums().dirty_pages(), 0u);
  other->lock().unlock();
  registry::abandon(other);
  for (const size_t i : {1, 3}) deallocate(all[i]);
}

TEST_F(MediumRunsTest, MisuseIsReported) {
  auto* p = static_cast<char*>(allocate(100'000));
  EXPECT_DEATH(deallocate(p + 16), "free of an interior pointer .*: object .* of 102400 bytes");
  EXPECT_DEATH(deallocate(p + kPage), "free of an interior pointer .*: object .* of 102400 bytes");
  EXPECT_DEATH(deallocate(p + 102400), "free of a pointer to memory that is not allocated");
  EXPECT_DEATH(
      {
        deallocate(p);
        deallocate(p);
      },
      "free of a pointer to memory that is not allocated");
  // In another thread, and after the object has come home.
  EXPECT_DEATH(
      {
        in_thread([&] { deallocate(p); });
        in_thread([&] { deallocate(p); });
      },
      "free of a pointer to memory that is not allocated");
  deallocate(p);
}

// With no memory for anything else, giving back still works.
TEST_F(MediumRunsTest, ALimitIsKept) {
  const size_t before = span::committed();
  options.hard_limit.store(before + (size_t{8} << 20));
  std::vector<void*> objects;
  while (void* p = allocate(200'000)) objects.push_back(p);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_LE(span::committed(), before + (size_t{8} << 20));
  EXPECT_GE(objects.size(), (size_t{7} << 20) / 200'000);
  for (void* p : objects) deallocate(p);
}

}  // namespace
}  // namespace loft
