// What a free of another heap's object costs, with batches and without (BatchIt, 2 and 3.1), with
// queues of objects and of batches, and that overwritten links are found. Each test has a size
// class of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "loft/loft.h"
#include "pages/heap.h"

namespace {

using engine::Counts;
using engine::counts;
namespace pages = engine::pages;

pages::Slab* slab_of(void* p) { return pages::slab_of(static_cast<pages::Object*>(p)); }

std::vector<void*> make(size_t count, size_t bytes) {
  std::vector<void*> objects;
  for (size_t i = 0; i < count; ++i) objects.push_back(loft_malloc(bytes));
  return objects;
}

// A full slab and one more object, which has shown its heap that the first slab is full.
std::vector<void*> make_full_slab(size_t bytes) {
  std::vector<void*> objects = make(1, bytes);
  while (slab_of(objects.back()) == slab_of(objects.front())) {
    objects.push_back(loft_malloc(bytes));
  }
  return objects;
}

// By another thread, which then ends and so sends its batches.
Counts free_elsewhere(const std::vector<void*>& objects, size_t from, size_t count) {
  const Counts before = counts();
  std::thread([&] {
    for (size_t i = from; i < from + count; ++i) loft_free(objects[i]);
  }).join();
  Counts after = counts();
  after.frees_remote -= before.frees_remote;
  after.messages -= before.messages;
  after.swaps -= before.swaps;
  after.batches -= before.batches;
  after.batch_objects -= before.batch_objects;
  after.evictions -= before.evictions;
  return after;
}

constexpr bool batching() { return PAGES_BATCHING != 0; }
// With BATCHIT_QUEUE=batches. It is read when the first heap is made.
bool queues_batches() {
  loft_free(loft_malloc(16));
  return pages::policy.queue == pages::QueueOf::kBatches;
}

TEST(Messages, OfAWatchedSlabAreOneSwapEach) {
  const std::vector<void*> objects = make(100, 64);
  const Counts cost = free_elsewhere(objects, 0, 100);
  EXPECT_EQ(cost.frees_remote, 100u);
  EXPECT_EQ(cost.messages, batching() ? 1u : 100u);
  EXPECT_EQ(cost.swaps, batching() ? 1u : 100u);
  EXPECT_EQ(cost.batches, batching() ? 1u : 0u);
  EXPECT_EQ(cost.batch_objects, batching() ? 100u : 0u);
}

TEST(Messages, OfAnUnwatchedSlabAreTwoOrAWholeOne) {
  const std::vector<void*> objects = make_full_slab(128);
  EXPECT_FALSE(slab_of(objects[0])->watched);
  const Counts cost = free_elsewhere(objects, 0, 10);
  if (queues_batches()) {
    EXPECT_EQ(cost.messages, batching() ? 1u : 10u);
    EXPECT_EQ(cost.swaps, cost.messages);
    return;
  }
  EXPECT_EQ(cost.messages, batching() ? 2u : 10u) << "a notice and the rest";
  EXPECT_EQ(cost.swaps, batching() ? 3u : 11u) << "one more for the right to notify";
}

TEST(Messages, OfAnUnwatchedSlabComeHome) {
  const std::vector<void*> objects = make_full_slab(192);
  const uint32_t capacity = slab_of(objects[0])->capacity;
  const uint64_t received = counts().received;
  free_elsewhere(objects, 5, 10);
  // The second slab's rest, and then what came back.
  const std::vector<void*> more = make(capacity - 1 + 10, 192);
  const std::set<void*> all(more.begin(), more.end());
  for (size_t i = 5; i < 15; ++i) EXPECT_EQ(all.count(objects[i]), 1u) << i;
  EXPECT_EQ(counts().received - received, queues_batches() && batching() ? 1u : 10u);
}

// Of each batch the first object alone is read, and none is written.
TEST(Messages, OfBatchesAreReceivedWithoutAWalk) {
  if (!batching() || !queues_batches()) GTEST_SKIP();
  const std::vector<void*> objects = make(39, 896);
  free_elsewhere(objects, 0, 10);
  free_elsewhere(objects, 20, 5);
  const auto at = [&](size_t i) { return static_cast<pages::Object*>(objects[i]); };
  pages::Slab* const slab = slab_of(objects[0]);
  const uintptr_t link = at(5)->link;
  at(5)->link = ~uintptr_t{0};
  EXPECT_EQ(slab->collect(), 2u);
  at(5)->link = link;
  EXPECT_EQ(slab->used, 24u);
  while (slab->free != nullptr) slab->take();
  for (const size_t i : {24, 23, 22, 21, 20, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}) {
    if (slab->free == nullptr) {
      ASSERT_TRUE(slab->open_batch());
    }
    EXPECT_EQ(slab->take(), at(i)) << i;
  }
}

TEST(Messages, OwnFreesMakeASlabWatched) {
  const std::vector<void*> objects = make_full_slab(256);
  free_elsewhere(objects, 0, 3);
  loft_free(objects[3]);
  EXPECT_TRUE(slab_of(objects[4])->watched);
  const Counts cost = free_elsewhere(objects, 4, 3);
  EXPECT_EQ(cost.messages, batching() ? 1u : 3u) << "no notice";
}

// More slabs than the cache has lists, in turn: most frees evict.
TEST(Messages, ABatchMakesRoomForAnother) {
  if (!batching()) GTEST_SKIP();
  constexpr size_t kBytes = 4096;  // 16 to a slab
  const std::vector<void*> objects = make(16 * 64, kBytes);
  std::vector<void*> in_turn;
  for (size_t i = 0; i < objects.size(); ++i) in_turn.push_back(objects[i % 64 * 16 + i / 64]);
  const Counts cost = free_elsewhere(in_turn, 0, in_turn.size());
  EXPECT_EQ(cost.batch_objects, in_turn.size());
  EXPECT_GT(cost.evictions, in_turn.size() / 4);
  EXPECT_LE(cost.batches - cost.evictions, 16u);
}

// The slabs of a thread that has ended are the next one's.
TEST(Pool, AHeapIsAdoptedWithItsSlabs) {
  void* kept = nullptr;
  const auto id_of_heap = [](void* p) { return slab_of(p)->heap->id; };
  std::thread([&] { kept = loft_malloc(320); }).join();
  void* next_one = nullptr;
  std::thread([&] { next_one = loft_malloc(320); }).join();
  EXPECT_EQ(id_of_heap(kept), id_of_heap(next_one));
  EXPECT_EQ(slab_of(kept), slab_of(next_one));
  loft_free(kept);
  loft_free(next_one);
}

TEST(Pool, AThreadThatHasEndedStillAllocatesAndFrees) {
  static thread_local void* before = nullptr;
  static pthread_key_t key;
  // Made after the engine's own, so its destructor runs later.
  loft_free(loft_malloc(16));
  ASSERT_EQ(pthread_key_create(&key,
                               [](void* p) {
                                 loft_free(p);
                                 loft_free(loft_malloc(384));
                               }),
            0);
  std::thread([] {
    before = loft_malloc(384);
    pthread_setspecific(key, before);
  }).join();
  pthread_key_delete(key);
}

TEST(ChecksDeathTest, AnOverwrittenLinkStopsTheProgram) {
  if (!pages::Links::kChecked) GTEST_SKIP();
  const std::vector<void*> objects = make(4, 448);
  const auto overwrite = [&](uintptr_t with) {
    loft_free(objects[0]);
    *static_cast<uintptr_t*>(objects[0]) = with;
    make(1000, 448);
  };
  EXPECT_DEATH(overwrite(0), "a free object of 448 bytes at 0x[0-9a-f]+ was overwritten");
  EXPECT_DEATH(overwrite(reinterpret_cast<uintptr_t>(objects[1])), "was overwritten");
}

TEST(ChecksDeathTest, AnOverwrittenLinkOfAMessageStopsTheProgram) {
  if (!pages::Links::kChecked) GTEST_SKIP();
  const std::vector<void*> objects = make(40, 512);
  const auto overwrite = [&] {
    free_elsewhere(objects, 0, 10);
    *static_cast<uintptr_t*>(objects[5]) ^= 1 << 20;
    make(1000, 512);
  };
  EXPECT_DEATH(overwrite(), "was overwritten");
}

TEST(ChecksDeathTest, ABatchThatSaysTooMuchStopsTheProgram) {
  if (!pages::Links::kChecked || !queues_batches()) GTEST_SKIP();
  for (const bool watched : {true, false}) {
    const size_t bytes = watched ? 768 : 1024;
    const std::vector<void*> objects = watched ? make(40, bytes) : make_full_slab(bytes);
    const auto overwrite = [&](uintptr_t with) {
      free_elsewhere(objects, 0, 10);
      static_cast<pages::Object*>(objects[batching() ? 9 : 0])->message ^= with;
      make(1000, bytes);
    };
    constexpr unsigned kCountAt = pages::Batch::kAddressBits;
    EXPECT_DEATH(overwrite(uintptr_t{1} << (kCountAt + 10)), "was overwritten") << "too many";
    EXPECT_DEATH(overwrite(uintptr_t{1} << 20), "was overwritten") << "another next one";
  }
}

TEST(ChecksDeathTest, AnOverwrittenNoticeStopsTheProgram) {
  if (!pages::Links::kChecked) GTEST_SKIP();
  const std::vector<void*> objects = make_full_slab(640);
  const auto overwrite = [&] {
    free_elsewhere(objects, 0, 1);
    *static_cast<uintptr_t*>(objects[0]) ^= 1 << 20;
    make(1000, 640);
  };
  EXPECT_DEATH(overwrite(), "was overwritten");
}

}  // namespace
