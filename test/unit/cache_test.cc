// A thread's cache: its bins, its open batches, its beginning and its end.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/object.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "runtime/lifecycle.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::in_thread;
using test::number;
using test::slab_of;

uint32_t slab_index(const void* p) { return pagemap.of(p).index(); }

void* inside(void* p, size_t offset) { return static_cast<char*>(p) + offset; }

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    // This thread has a heap, so that no other one adopts the heap of its objects.
    deallocate(allocate(16));
  }

  // Whole slabs full of this thread's objects, by slab.
  static std::vector<std::vector<void*>> slabs_of(size_t size, unsigned slabs) {
    std::vector<std::vector<void*>> result;
    const unsigned objects = geometry(class_of(size)).objects;
    for (unsigned i = 0; i < slabs * objects; ++i) {
      void* p = allocate(size);
      const auto of_slab = std::find_if(result.begin(), result.end(), [&](const auto& slab) {
        return slab_index(slab.front()) == slab_index(p);
      });
      if (of_slab == result.end()) {
        result.push_back({p});
      } else {
        of_slab->push_back(p);
      }
    }
    return result;
  }

  static void release(const std::vector<std::vector<void*>>& slabs) {
    for (const auto& slab : slabs) {
      for (void* p : slab) deallocate(p);
    }
  }

  // Frees one of a slab's objects, and returns where it was.
  static void* give_one(std::vector<void*>& slab) {
    void* p = slab.back();
    slab.pop_back();
    deallocate(p);
    return p;
  }

  static void drain_all(Heap* heap) {
    const os::Guard guard(heap->lock());
    heap->drain_all();
  }

  // What came home to the heap so far, and waits at its door.
  static unsigned long received(Heap* heap, SizeClass c) {
    drain_all(heap);
    return heap->counters().classes[c].received.get();
  }

  static unsigned long turnarounds() { return self->counters.turnarounds.get(); }

  static bool has_batch(const void* p) {
    const size_t set = batch_set(slab_index(p));
    return self->batch_keys[set] == slab_index(p) ||
           self->batch_keys[set + kBatchSets] == slab_index(p);
  }

  static unsigned long in_batches() {
    unsigned long objects[kSizeClasses] = {};
    batch_cache::count_open(self, objects);
    unsigned long sum = 0;
    for (const unsigned long of_class : objects) sum += of_class;
    return sum;
  }

 private:
  test::DefaultOptions defaults_;
};

TEST_F(CacheTest, EachOfTheSixteenBatchesIsReached) {
  std::vector<std::vector<void*>> slabs = slabs_of(1024, 100);
  unsigned most_at_once = 0;
  unsigned places = 0;
  in_thread([&] {
    for (auto& slab : slabs) {
      give_one(slab);
      places |= self->open_batches;
      most_at_once = std::max(most_at_once, count_bits(self->open_batches));
    }
  });
  EXPECT_EQ(places, 0xffffu);
  EXPECT_EQ(most_at_once, kBatches);
  release(slabs);
}

TEST_F(CacheTest, NeighbouringSlabsSpreadOverTheSets) {
  unsigned sets = 0;
  for (uint32_t index = 1000; index < 1016; ++index) sets |= 1u << batch_set(index);
  EXPECT_EQ(sets, 0xffu);
}

// Both batches of a set see an eviction of a third slab's; then the one goes that gathers less, be
// it the fuller one.
TEST_F(CacheTest, TheBatchThatGrewLeastIsEvicted) {
  std::vector<std::vector<void*>> slabs = slabs_of(1024, 60);
  std::vector<std::vector<void*>*> same;
  for (auto& slab : slabs) {
    if (batch_set(slab_index(slab[0])) == batch_set(slab_index(slabs[0][0]))) same.push_back(&slab);
  }
  ASSERT_GE(same.size(), 3u);
  const auto give = [](std::vector<void*>& slab, int objects) {
    for (; objects != 0; --objects) {
      give_one(slab);
    }
  };
  for (const bool first_is_fuller : {false, true}) {
    std::vector<void*>& fuller = *same[first_is_fuller ? 0 : 1];
    std::vector<void*>& emptier = *same[first_is_fuller ? 1 : 0];
    in_thread([&] {
      self->misses = 0;
      give(*same[0], 1);
      give(*same[1], 1);
      give(fuller, 8);
      give(emptier, 2);
      // The block may be another thread's of before: its counters go on.
      const ThreadCounters& counters = self->counters;
      const unsigned long batches = counters.batches_sent.get();
      const unsigned long evicted = counters.batches_evicted.get();
      const unsigned long objects = counters.batch_objects[class_of(1024)].get();
      give(*same[2], 1);
      EXPECT_EQ(counters.batches_sent.get() - batches, 1u);
      EXPECT_EQ(counters.batches_evicted.get() - evicted, 1u);
      EXPECT_EQ(counters.batch_objects[class_of(1024)].get() - objects, 3u);
      EXPECT_TRUE(has_batch(fuller.front()));
      EXPECT_FALSE(has_batch(emptier.front()));
      EXPECT_TRUE(has_batch(same[2]->front()));
      give(*same[2], 2);
      give(emptier, 2);  // the first joins the message that waits
      EXPECT_EQ(counters.batches_evicted.get() - evicted, 2u);
      EXPECT_EQ(counters.batch_objects[class_of(1024)].get() - objects, 3u + 1 + 9);
      EXPECT_FALSE(has_batch(fuller.front()));
      EXPECT_TRUE(has_batch(emptier.front()));
      EXPECT_TRUE(has_batch(same[2]->front()));
    });
  }
  release(slabs);
}

// One object of each of more slabs than there are batches, again and again: most join a message
// that waits for their owner; a slab that comes twice in a row gets a batch.
TEST_F(CacheTest, ObjectsOfManySlabsGoAlone) {
  constexpr size_t kEach = 8;
  std::vector<std::vector<void*>> slabs = slabs_of(1024, 100);
  Heap* owner = registry::at(pagemap.of(slabs[0][0]).owner());
  const SizeClass c = class_of(1024);
  const auto out = [&] { return owner->counters().classes[c].out(); };
  const unsigned long before = out();
  in_thread([&] {
    const ThreadCounters& counters = (deallocate(allocate(16)), self->counters);
    const unsigned long evicted = counters.batches_evicted.get();
    const unsigned long sent = counters.batches_sent.get();
    const unsigned long objects = counters.batch_objects[c].get();
    const unsigned long messages = counters.batch_messages.get();
    for (size_t turn = 0; turn < kEach; ++turn) {
      for (auto& slab : slabs) {
        give_one(slab);
      }
    }
    const unsigned long freed = kEach * slabs.size();
    EXPECT_LT(counters.batches_evicted.get() - evicted, freed / 4);
    EXPECT_LT(counters.batch_messages.get() - messages, freed / 16);
    EXPECT_GT(counters.batches_sent.get() - sent, freed / 2);
    EXPECT_EQ(counters.batch_objects[c].get() - objects + in_batches(), freed);
    void* const once = slabs[0].back();
    slabs[0].pop_back();
    void* const twice = slabs[0].back();
    slabs[0].pop_back();
    deallocate(once);
    deallocate(twice);
    EXPECT_TRUE(has_batch(twice));
  });
  drain_all(owner);
  EXPECT_EQ(before - out(), kEach * slabs.size() + 2);
  release(slabs);
}

TEST_F(CacheTest, FullBatchIsSent) {
  std::vector<std::vector<void*>> slabs = slabs_of(1024, 2);
  in_thread([&] {
    for (size_t i = 1; i < Profile::kBatchBytes / 1024; ++i) {
      give_one(slabs[0]);
    }
    EXPECT_TRUE(has_batch(slabs[0].back()));
    const unsigned long sent = self->counters.batches_sent.get();
    deallocate(slabs[0].back());
    EXPECT_FALSE(has_batch(slabs[0].back()));
    slabs[0].pop_back();
    EXPECT_EQ(self->open_batches, 0u);
    EXPECT_EQ(self->counters.batches_sent.get() - sent, 1u);
  });
  release(slabs);
}

TEST_F(CacheTest, AThreadThatOnlyFreesHasNoHeapAndHoardsNothing) {
  std::vector<std::vector<void*>> slabs = slabs_of(64, 3);
  Heap* heap = self->heap;
  const unsigned heaps = registry::count();
  const unsigned adoptions = registry::adoptions();
  const unsigned long before = heap->counters().objects_received();
  unsigned long objects = 0;
  in_thread([&] {
    give_one(slabs[0]);  // it has a block from here on
    ++objects;
    const size_t capacity = self->capacity_bytes;
    for (const auto& slab : slabs) {
      for (void* p : slab) deallocate(p);
      objects += slab.size();
    }
    EXPECT_EQ(self->heap, nullptr);
    EXPECT_EQ(self->owner, kNeverOwner);
    EXPECT_EQ(self->capacity_bytes, capacity);
  });
  EXPECT_EQ(registry::count(), heaps);
  EXPECT_EQ(registry::adoptions(), adoptions);
  drain_all(heap);
  EXPECT_EQ(heap->counters().objects_received() - before, objects);
}

TEST_F(CacheTest, OutboxIsPostedWhenItHoldsEnough) {
  std::vector<std::vector<void*>> slabs = slabs_of(1024, 4);
  std::sort(slabs.begin(), slabs.end(),
            [](const auto& one, const auto& other) { return one.size() > other.size(); });
  in_thread([&] {
    unsigned long posts = 0;
    for (size_t i = 1; i < Profile::kOutboxBytes / 1024; ++i) {
      give_one(slabs[i % 2]);
      if (i == 1) posts = self->counters.posts.get();
    }
    EXPECT_EQ(self->counters.posts.get(), posts);
    give_one(slabs[0]);
    EXPECT_EQ(self->counters.posts.get() - posts, 1u);
    EXPECT_TRUE(self->outbox.empty());
  });
  release(slabs);
}

TEST_F(CacheTest, BinsGrowWhenRefillsAndFlushesAlternate) {
  in_thread([&] {
    const SizeClass c = class_of(64);
    std::vector<void*> objects;
    unsigned capacity = 0;
    for (int round = 0; round < 30; ++round) {
      for (int i = 0; i < 1000; ++i) objects.push_back(allocate(64));
      for (void* p : objects) deallocate(p);
      objects.clear();
      EXPECT_GE(self->states[c].capacity, capacity) << "no review comes by so soon";
      capacity = self->states[c].capacity;
      EXPECT_TRUE(is_power_of_two(capacity + 1u));
    }
    EXPECT_GE(capacity, 1000u);
    // From here on the swing stays inside the cache.
    const unsigned long refills = self->heap->counters().refills.get();
    const unsigned long flushes = self->counters.flushes.get();
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 1000; ++i) objects.push_back(allocate(64));
      for (void* p : objects) deallocate(p);
      objects.clear();
    }
    EXPECT_EQ(self->heap->counters().refills.get(), refills);
    EXPECT_EQ(self->counters.flushes.get(), flushes);
  });
}

// What a bin holds besides its array.
size_t stashed_by_count(const BinState& state) {
  size_t arrays = 0;
  for (void** slots = state.depot; slots != nullptr; slots = static_cast<void**>(slots[0])) {
    ++arrays;
  }
  return arrays;
}

TEST_F(CacheTest, LargeSwingsOfSmallObjectsStayInTheDepot) {
  in_thread([&] {
    constexpr unsigned kObjects = 30'000;
    const SizeClass c = class_of(16);
    std::vector<void*> objects;
    const auto swing = [&] {
      for (unsigned i = 0; i < kObjects; ++i) objects.push_back(allocate(16));
      for (void* p : objects) deallocate(p);
      objects.clear();
    };
    for (int round = 0; round < 20; ++round) swing();
    const unsigned long refills = self->heap->counters().refills.get();
    const unsigned long flushes = self->counters.flushes.get();
    for (int round = 0; round < 3; ++round) swing();
    EXPECT_EQ(self->heap->counters().refills.get(), refills);
    EXPECT_EQ(self->counters.flushes.get(), flushes);
    const BinState& state = self->states[c];
    EXPECT_EQ(state.stashed, stashed_by_count(state));
    EXPECT_GE(bins::held(self, c, self->bins[c].top()), kObjects);
    EXPECT_LE(self->capacity_bytes, options.cache_bytes.load());
    // Each object is there once.
    std::set<void*> all;
    for (unsigned i = bins::held(self, c, self->bins[c].top()); i != 0; --i)
      all.insert(objects.emplace_back(allocate(16)));
    EXPECT_EQ(all.size(), objects.size());
    for (void* p : objects) deallocate(p);
    bins::flush_all(self);
    EXPECT_EQ(state.stashed, 0u);
    EXPECT_EQ(state.depot, nullptr);
    EXPECT_EQ(bins::held(self, c, self->bins[c].top()), 0u);
  });
}

TEST_F(CacheTest, AnIdleDepotGoesBack) {
  in_thread([&] {
    const SizeClass c = class_of(32);
    std::vector<void*> objects;
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 10'000; ++i) objects.push_back(allocate(32));
      for (void* p : objects) deallocate(p);
      objects.clear();
    }
    ASSERT_NE(self->states[c].depot, nullptr);
    const unsigned long refills = self->heap->counters().refills.get();
    while (self->heap->counters().refills.get() - refills < 64 * kSizeClasses * 3 + 64) {
      objects.push_back(allocate(32768));
    }
    EXPECT_EQ(self->states[c].depot, nullptr);
    EXPECT_EQ(self->states[c].slots, nullptr);
    EXPECT_EQ(self->spare_arrays, nullptr);
    for (void* object : objects) deallocate(object);
  });
}

TEST_F(CacheTest, ASteadySwingKeepsItsDepot) {
  in_thread([&] {
    std::vector<void*> objects;
    const auto swings = [&](int rounds) {
      for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < 20'000; ++i) objects.push_back(allocate(16));
        for (void* p : objects) deallocate(p);
        objects.clear();
      }
    };
    swings(20);
    const unsigned long grown = self->counters.bins_grown.get();
    const unsigned long refills = self->heap->counters().refills.get();
    // Each swing takes some twenty arrays out: rounds of reviews enough.
    swings(1000);
    EXPECT_EQ(self->counters.bins_grown.get(), grown);
    EXPECT_LT(self->heap->counters().refills.get() - refills, 100u);
  });
}

TEST_F(CacheTest, BinsRespectTheByteBudget) {
  options.cache_bytes.store(100'000);
  in_thread([&] {
    size_t first_arrays = 0;
    for (SizeClass c = 0; c < kSizeClasses; ++c) {
      std::vector<void*> objects;
      for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 300; ++i) objects.push_back(allocate(class_size(c)));
        for (void* p : objects) deallocate(p);
        objects.clear();
        if (round == 0) {
          // A first array of at most 2 KiB or three objects is always allowed.
          first_arrays += std::max<size_t>(2048, 3 * class_size(c));
        }
        ASSERT_LE(self->capacity_bytes, 100'000 + first_arrays);
      }
    }
    size_t sum = 0;
    for (SizeClass c = 0; c < kSizeClasses; ++c) {
      const BinState& state = self->states[c];
      sum += (state.stashed + size_t{1}) * state.capacity * class_size(c);
    }
    EXPECT_EQ(self->capacity_bytes, sum);
  });
}

class IdleBinTest : public CacheTest {
 protected:
  // An idle bin is empty after so many refills of another class, and all its objects are home.
  void expect_empty_after(unsigned wanted, size_t busy) {
    const SizeClass idle = class_of(4096);
    void* p = allocate(4096);
    deallocate(p);
    ASSERT_NE(self->states[idle].slots, nullptr);
    std::vector<void*> objects;
    const Counter& refills = self->heap->counters().refills;
    for (const unsigned long before = refills.get(); refills.get() - before < wanted;) {
      objects.push_back(allocate(busy));
    }
    EXPECT_EQ(self->states[idle].slots, nullptr);
    EXPECT_EQ(self->bins[idle].top(), no_objects);
    EXPECT_EQ(slab_of(p)->free, slab_of(p)->shape().objects) << "all objects of it are home";
    EXPECT_NE(self->states[class_of(busy)].slots, nullptr) << "this one is in use";
    for (void* object : objects) deallocate(object);
    deallocate(allocate(4096));
  }
};

// Each refill counts towards the next review.
TEST_F(IdleBinTest, GivesItsObjectsBack) {
  in_thread([&] { expect_empty_after(64 * kSizeClasses * 2 + 64, 32768); });
}

// Two rounds of reviews, in far fewer refills than these would take: a look in eight refills
// reviews a bin, as long as the heap grows.
TEST_F(IdleBinTest, GivesThemBackSoonerToAHeapThatGrows) {
  in_thread([&] {
    deallocate(allocate(16));  // with the thread's heap
    const Counter& slabs = self->heap->counters().fresh_slabs;
    const unsigned long before = slabs.get();
    expect_empty_after(8 * (2 * kSizeClasses + 1), 8192);
    EXPECT_GT(slabs.get(), before);
  });
}

// One large object for hundreds of refills: to keep it would save next to nothing.
TEST_F(CacheTest, RefillsOutnumberALargeObject) {
  in_thread([&] {
    std::vector<void*> objects = {allocate(32768)};  // with the thread's heap
    deallocate(allocate(300'000));
    ASSERT_NE(self->counters.medium_kept_bytes.get(), 0u);
    const unsigned long refills = self->heap->counters().refills.get();
    while (self->heap->counters().refills.get() - refills < 64) objects.push_back(allocate(32768));
    EXPECT_EQ(self->counters.medium_kept_bytes.get(), 0u);
    for (void* object : objects) deallocate(object);
  });
}

TEST_F(CacheTest, WatchEndsAfterTheFirstFrees) {
  in_thread([&] {
    const SizeClass c = class_of(96);
    std::vector<void*> objects;
    for (int i = 0; i < 100; ++i) objects.push_back(allocate(96));
    for (void* p : objects) deallocate(p);
    EXPECT_EQ(self->bins[c].limit(), self->states[c].slots + self->states[c].capacity);
  });
}

TEST_F(CacheTest, WhatOneThreadHadWatchedTheNextOneNeedNot) {
  const auto free_ten = [] {
    std::vector<void*> objects;
    for (int i = 0; i < 10; ++i) objects.push_back(allocate(352));
    const unsigned long before = self->counters.checked_frees.get();
    for (void* p : objects) deallocate(p);
    return self->counters.checked_frees.get() - before;
  };
  std::vector<unsigned long> checked(6);
  for (unsigned long& in_one : checked) in_thread([&] { in_one = free_ten(); });
  EXPECT_THAT(checked, testing::ElementsAre(10, 10, 10, 2, 0, 0));
}

TEST_F(CacheTest, ExitHandsEverythingToTheAdopter) {
  HeapId first = 0;
  std::vector<void*> kept;
  size_t held = 0;
  in_thread([&] {
    std::vector<void*> objects;
    for (int i = 0; i < 500; ++i) objects.push_back(allocate(200));
    first = self->owner;
    for (int i = 0; i < 500; ++i) {
      if (i % 5 == 0) {
        memset(objects[static_cast<size_t>(i)], 0x3c, 200);
        kept.push_back(objects[static_cast<size_t>(i)]);
      } else {
        deallocate(objects[static_cast<size_t>(i)]);
      }
    }
  });
  Heap* heap = registry::at(first);
  EXPECT_TRUE(heap->abandoned());
  held = heap->counters().allocated_bytes();
  EXPECT_GE(held, 100 * class_size(class_of(200)));
  in_thread([&] {
    deallocate(allocate(16));
    EXPECT_EQ(self->owner, first);
    EXPECT_FALSE(heap->abandoned());
    for (void* p : kept) {
      EXPECT_EQ(static_cast<char*>(p)[199], 0x3c);
      deallocate(p);
    }
  });
  EXPECT_LE(heap->counters().allocated_bytes() + 100 * class_size(class_of(200)), held);
}

TEST_F(CacheTest, BlocksAndHeapsAreUsedAgain) {
  in_thread([] { deallocate(allocate(16)); });
  const unsigned heaps = registry::count();
  const size_t metadata = metadata::used_bytes();
  const lifecycle::ThreadTotals before = lifecycle::totals();
  for (int i = 0; i < 200; ++i) {
    in_thread([] {
      for (size_t size = 16; size < 2000; size += 16) deallocate(allocate(size));
    });
  }
  EXPECT_EQ(registry::count(), heaps);
  EXPECT_LT(metadata::used_bytes(), metadata + 64 * 1024);
  const lifecycle::ThreadTotals after = lifecycle::totals();
  EXPECT_EQ(after.attached, before.attached);
  EXPECT_EQ(after.started - before.started, 200u);
  EXPECT_EQ(after.exited - before.exited, 200u);
}

size_t blocks_with_arrays() {
  size_t found = 0;
  for (const ThreadCache* block = newest_cache(); block != nullptr; block = block->older) {
    found += block->capacity_bytes != 0;
  }
  return found;
}

TEST_F(CacheTest, AFewBlocksKeepFirstArraysForTheNextThreads) {
  const SizeClass few = class_of(160);
  const SizeClass many = class_of(48);
  const auto use = [&](std::barrier<>* all) {
    youth::end();
    std::vector<void*> objects;
    for (int i = 0; i < 2; ++i) objects.push_back(allocate(160));
    for (int i = 0; i < 1000; ++i) objects.push_back(allocate(48));
    for (void* p : objects) deallocate(p);
    if (all != nullptr) all->arrive_and_wait();
  };
  const size_t before = blocks_with_arrays();
  constexpr int kThreads = 12;
  std::barrier<> all(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(use, &all);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(blocks_with_arrays(), before + 4);
  in_thread([&] {
    deallocate(allocate(16));
    EXPECT_NE(self->states[few].slots, nullptr) << "a first array";
    EXPECT_LE(self->states[many].capacity, bins::first_capacity(many)) << "one that has grown";
    EXPECT_EQ(bins::count(self, few), 0u);
    EXPECT_LT(self->capacity_bytes, 64u << 10);
    use(nullptr);
  });
}

// The system calls destructors in four rounds; the thread sanitizer forgets a thread in the last.
#if defined(LOFT_TEST_THREAD_SANITIZER)
constexpr int kRounds = 3;
#else
constexpr int kRounds = 4;
#endif

struct AfterExit {
  pthread_key_t key;
  int rounds = 0;
  int rounds_without_block = 0;
  void* remote = nullptr;  // an object of another thread
  void* own = nullptr;     // an object of this thread, from before its end
  bool failed = false;
};

void use_after_exit(void* value) {
  auto* test = static_cast<AfterExit*>(value);
  if (++test->rounds < kRounds) pthread_setspecific(test->key, test);
  if (lifecycle::attach() != nullptr) return;
  ++test->rounds_without_block;
  deallocate(test->remote);
  deallocate(test->own);
  test->remote = test->own = nullptr;
  for (const size_t size : {16, 100, 1024, 5000, 32768, 100'000}) {
    void* p = allocate(size);
    test->failed = test->failed || p == nullptr;
    memset(p, 1, size);
    void* larger = reallocate(p, size * 2);
    test->failed = test->failed || larger == nullptr || static_cast<char*>(larger)[size - 1] != 1;
    deallocate(larger);
  }
  test->failed = test->failed || self != &empty_cache;
}

TEST_F(CacheTest, CallsAfterTheThreadsEndWork) {
  AfterExit test;
  // Made after loft's own key: the system calls it after loft's in each round.
  ASSERT_EQ(pthread_key_create(&test.key, use_after_exit), 0);
  test.remote = allocate(64);
  const lifecycle::ThreadTotals before = lifecycle::totals();
  in_thread([&] {
    test.own = allocate(64);
    pthread_setspecific(test.key, &test);
  });
  EXPECT_GE(test.rounds_without_block, 1);
  EXPECT_FALSE(test.failed);
  EXPECT_EQ(lifecycle::totals().attached, before.attached);
  pthread_key_delete(test.key);
}

TEST_F(CacheTest, NoTurnaroundWhileThereIsMemory) {
  std::vector<std::vector<void*>> slabs = slabs_of(64, 1);
  in_thread([&] {
    for (int i = 0; i < 100; ++i) {
      give_one(slabs[0]);
    }
    const unsigned long before = turnarounds();
    std::vector<void*> mine;
    for (int i = 0; i < 5000; ++i) mine.push_back(allocate(64));
    EXPECT_EQ(turnarounds(), before);
    for (void* p : mine) {
      EXPECT_EQ(pagemap.of(p).owner(), self->owner);
      deallocate(p);
    }
  });
  release(slabs);
}

// What is freed for a heap whose thread was put aside in the midst of a refill.
class StallTest : public CacheTest {
 protected:
  // By two looks that find the lock held, which it is.
  static void find_stalled(Heap* other) {
    const os::Guard guard(self->heap->lock());
    self->heap->stall().note(other->id(), other->lock(), 1'000'000);
    EXPECT_FALSE(self->heap->stall().is_at(other->id())) << "it may be at work";
    self->heap->stall().note(other->id(), other->lock(), 2'000'000);
    EXPECT_TRUE(self->heap->stall().is_at(other->id()));
  }
};

TEST_F(StallTest, WhatCannotComeHomeIsReused) {
  std::vector<std::vector<void*>> lines = slabs_of(1024, 2);
  std::vector<std::vector<void*>> smaller = slabs_of(48, 1);
  Heap* home = self->heap;
  in_thread([&] {
    deallocate(allocate(1024));
    ASSERT_NE(self->heap, home);
    const unsigned long before = turnarounds();
    give_one(lines[0]);
    batch_cache::send_all(self);
    EXPECT_EQ(turnarounds(), before) << "it goes home";
    {
      const os::Guard guard(home->lock());
      find_stalled(home);
      void* kept = give_one(lines[0]);
      EXPECT_EQ(turnarounds(), before + 1);
      EXPECT_EQ(allocate(1024), kept);
      give_one(smaller[0]);
      EXPECT_TRUE(has_batch(smaller[0].back())) << "two threads would write one line";
      deallocate(kept);
      EXPECT_EQ(turnarounds(), before + 2);
    }
    // Held once more, and nobody has asked in between.
    const os::Guard guard(home->lock());
    give_one(lines[0]);
    EXPECT_EQ(turnarounds(), before + 2);
    EXPECT_TRUE(has_batch(lines[0].back()));
    find_stalled(home);
  });
  release(lines);
  release(smaller);
}

// More than the bin takes, and what is in it at the thread's end.
TEST_F(StallTest, WhatWasKeptComesHomeAfterAll) {
  const SizeClass c = class_of(1024);
  std::vector<std::vector<void*>> lines = slabs_of(1024, 40);
  Heap* home = self->heap;
  const unsigned long before = received(home, c);
  unsigned long given = 0;
  in_thread([&] {
    deallocate(allocate(1024));
    const unsigned long kept_before = turnarounds();
    const os::Guard guard(home->lock());
    find_stalled(home);
    for (auto& slab : lines) {
      while (slab.size() > 1) {
        give_one(slab);
        ++given;
      }
    }
    EXPECT_GE(turnarounds() - kept_before, given / 4) << "a slab has a batch once the bin was full";
  });
  EXPECT_EQ(received(home, c) - before, given);
  release(lines);
}

TEST(Trade, KeepsForSomeWindowsAfterOneInWhichEnoughWasReceived) {
  HeapCounters own{};
  Trade trade{};
  // Objects kept in a window while `received` come home.
  const auto window = [&](unsigned received) {
    own.classes[class_of(64)].received.add(received);
    for (const size_t size : {48, 2048}) own.classes[class_of(size)].received.add(1'000'000);
    unsigned kept = 0;
    for (uint32_t i = 0; i < Trade::kWindow; ++i) kept += trade.keeps(own) ? 1u : 0u;
    return kept;
  };
  EXPECT_EQ(window(1'000'000), 0u) << "by an earlier thread, as far as it knows";
  EXPECT_EQ(window(Trade::kEnough - 1), 0u);
  EXPECT_EQ(window(Trade::kEnough - 1), 0u) << "each window counts by itself";
  EXPECT_EQ(window(Trade::kEnough), 1u) << "from its end on";
  unsigned kept = 0;
  for (unsigned i = 0; i < Trade::kKeeping; ++i) kept += window(0);
  EXPECT_EQ(kept, Trade::kKeeping * Trade::kWindow - 1);
  EXPECT_EQ(window(Trade::kEnough - 1), 0u) << "it asks again";
  EXPECT_EQ(window(0), 0u);
}

class TradeTest : public CacheTest {
 protected:
  // As if this thread and others had freed each other's objects for long.
  static void find_trading() {
    HeapCounters own{};
    self->trade = Trade{};
    for (int window = 0; window < 2; ++window) {
      own.classes[class_of(64)].received.add(Trade::kEnough);
      for (uint32_t i = 0; i < Trade::kWindow; ++i) self->trade.keeps(own);
    }
  }

  // A bin with an array, and no longer under watch.
  static void use_bin(size_t size) {
    for (int i = 0; i < 100; ++i) deallocate(allocate(size));
  }

  void TearDown() override {
    self->trade = Trade{};
    bins::flush_all(self);
    batch_cache::send_all(self);
  }
};

TEST_F(TradeTest, WholeCacheLinesStayWhereTheyAreFreed) {
  std::vector<std::vector<void*>> lines = slabs_of(512, 3);
  std::vector<std::vector<void*>> smaller = slabs_of(48, 1);
  std::vector<std::vector<void*>> larger = slabs_of(2048, 1);
  in_thread([&] {
    for (const size_t size : {512, 48, 2048}) use_bin(size);
    const unsigned long before = turnarounds();
    give_one(lines[0]);
    EXPECT_TRUE(has_batch(lines[0].back()));
    find_trading();
    void* kept = give_one(lines[1]);
    EXPECT_EQ(turnarounds(), before + 1);
    EXPECT_EQ(allocate(512), kept);
    give_one(lines[2]);
    EXPECT_EQ(turnarounds(), before + 2);
    give_one(lines[2]);
    EXPECT_TRUE(has_batch(lines[2].back())) << "twice in a row is worth one";
    give_one(lines[0]);
    EXPECT_EQ(turnarounds(), before + 2) << "its slab has a batch";
    give_one(smaller[0]);
    EXPECT_TRUE(has_batch(smaller[0].back())) << "two threads would write one line";
    give_one(larger[0]);
    EXPECT_TRUE(has_batch(larger[0].back()));
    void* const popped = allocate(512);
    deallocate(kept);
    EXPECT_EQ(turnarounds(), before + 3) << "another slab's in between";
    deallocate(popped);
  });
  release(lines);
  release(smaller);
  release(larger);
}

TEST_F(TradeTest, NoMoreThanTheBinHasRoomFor) {
  std::vector<std::vector<void*>> lines = slabs_of(512, 40);
  const SizeClass c = class_of(512);
  Heap* home = self->heap;
  const unsigned long received_before = received(home, c);
  unsigned long given = 0;
  in_thread([&] {
    use_bin(512);
    find_trading();
    const unsigned long before = turnarounds();
    const unsigned capacity = self->states[c].capacity;
    for (unsigned turn = 1; turn < geometry(c).objects; ++turn) {
      for (auto& slab : lines) {
        if (slab.size() <= 1) continue;
        give_one(slab);
        ++given;
      }
    }
    EXPECT_EQ(self->states[c].capacity, capacity);
    EXPECT_GT(turnarounds(), before);
    EXPECT_LE(turnarounds() - before, capacity);
  });
  EXPECT_EQ(received(home, c) - received_before, given);
  release(lines);
}

// Fills a table with objects of 64 to 1024 bytes, and empties another one in an order of its own.
class Trader {
 public:
  static constexpr unsigned kObjects = 8192;

  explicit Trader(unsigned seed) : random_(seed) {}

  void fill(std::vector<uint64_t*>& table) {
    table.resize(kObjects);
    for (uint64_t*& p : table) {
      p = static_cast<uint64_t*>(allocate(64 * (1 + random_() % 16)));
      *p = reinterpret_cast<uint64_t>(&p);
    }
    std::shuffle(table.begin(), table.end(), random_);
  }

  // Of objects in nobody else's hands, each names the place it was made for.
  static void empty(std::vector<uint64_t*>& table) {
    std::set<uint64_t> names;
    for (const uint64_t* p : table) names.insert(*p);
    EXPECT_EQ(names.size(), kObjects);
    EXPECT_EQ(*names.begin(), reinterpret_cast<uint64_t>(&table.front()));
    EXPECT_EQ(*names.rbegin(), reinterpret_cast<uint64_t>(&table.back()));
    for (uint64_t* p : table) deallocate(p);
  }

 private:
  std::mt19937 random_;
};

TEST_F(TradeTest, IsFoundOutWhereTwoThreadsFreeEachOthersObjects) {
  std::vector<uint64_t*> tables[2];
  unsigned long kept[2] = {};
  std::barrier together(2);
  const auto trade = [&](unsigned me) {
    deallocate(allocate(64));  // from here on it has a block
    const unsigned long before = turnarounds();
    Trader trader(me);
    for (int round = 0; round < 20; ++round) {
      trader.fill(tables[me]);
      together.arrive_and_wait();
      Trader::empty(tables[1 - me]);
      together.arrive_and_wait();
    }
    kept[me] = turnarounds() - before;
    together.arrive_and_wait();  // no heap is adopted before the other thread's end
  };
  std::thread other(trade, 1);
  trade(0);
  other.join();
  EXPECT_GT(kept[0], 0u);
  EXPECT_GT(kept[1], 0u);
}

TEST_F(TradeTest, IsNotTakenForGivingAway) {
  std::vector<uint64_t*> table;
  Trader trader(1);
  std::barrier together(2);
  std::thread consumer([&] {
    for (size_t size = 64; size <= 1024; size += 64) use_bin(size);
    drain_all(self->heap);  // it has adopted one, for which earlier tests may have freed
    const unsigned long before = turnarounds();
    for (int round = 0; round < 10; ++round) {
      together.arrive_and_wait();
      Trader::empty(table);
      together.arrive_and_wait();
    }
    EXPECT_EQ(turnarounds(), before);
  });
  for (int round = 0; round < 10; ++round) {
    trader.fill(table);
    together.arrive_and_wait();
    together.arrive_and_wait();
  }
  consumer.join();
}

// The sanitizers ask for memory of their own.
#if !defined(LOFT_TEST_ADDRESS_SANITIZER) && !defined(LOFT_TEST_THREAD_SANITIZER)

// In a process of its own. What lies in open batches may free a slab of its owner's.
[[noreturn]] void exhaust_and_look_at_batches() {
  std::vector<void*> lines;
  std::vector<void*> smaller;
  in_thread([&] {
    for (int i = 0; i < 100; ++i) {
      lines.push_back(allocate(64));
      smaller.push_back(allocate(48));
    }
  });
  for (void* p : lines) deallocate(p);
  for (void* p : smaller) deallocate(p);
  deallocate(allocate(48));
  const rlimit nothing_more = {0, 0};
  setrlimit(RLIMIT_DATA, &nothing_more);
  if (self->open_batches == 0) _exit(1);
  const unsigned long sent = self->counters.posts.get();
  while (allocate(32768) != nullptr) {
  }
  if (errno != ENOMEM) _exit(2);
  _exit(self->open_batches == 0 && self->outbox.empty() && self->counters.posts.get() > sent ? 0
                                                                                             : 3);
}

TEST_F(CacheTest, OpenBatchesAreSentWhereThereIsNoMemory) {
  EXPECT_EXIT(exhaust_and_look_at_batches(), testing::ExitedWithCode(0), "");
}

#endif

TEST_F(CacheTest, ObjectsFromInteriorPointers) {
  for (const size_t size : {16, 48, 1000, 20'000, 100'000, 3'000'000}) {
    void* p = allocate(size);
    const size_t usable = usable_size(p);
    EXPECT_GE(usable, size);
    for (const size_t offset : {size_t{0}, size_t{1}, size / 2, usable - 1}) {
      const ObjectRange range = object_of(inside(p, offset));
      EXPECT_EQ(range.start, p);
      EXPECT_EQ(range.size, usable);
    }
    deallocate(p);
  }
  int local = 0;
  EXPECT_EQ(object_of(&local).start, nullptr);
  EXPECT_EQ(object_of(nullptr).start, nullptr);
  // The slack behind the last object of a slab.
  void* p = allocate(48);
  const ObjectRange slack = object_of(address(slab_of(p)->base + kGranule - 1));
  EXPECT_EQ(slack.start, nullptr);
  deallocate(p);
}

using CacheDeathTest = CacheTest;

constexpr char kDoubleFree[] = "loft: double free of 0x[0-9a-f]+: slab 0x[0-9a-f]+, size class";
constexpr char kInterior[] =
    "loft: free of an interior pointer 0x[0-9a-f]+: slab 0x[0-9a-f]+, size class";

TEST_F(CacheDeathTest, FirstFreesAreWatched) {
  void* p = allocate(200);
  void* q = allocate(200);
  deallocate(p);
  EXPECT_DEATH(deallocate(p), kDoubleFree);
  EXPECT_DEATH(deallocate(inside(q, 16)), kInterior);
  // A place that was never handed out: it is free in its slab.
  EXPECT_DEATH(deallocate(address(slab_of(q)->base + 290 * class_size(class_of(200)))),
               kDoubleFree);
  deallocate(q);
}

using StallDeathTest = StallTest;

// Beyond the pushes that are watched in any case.
TEST_F(StallDeathTest, WhatIsKeptIsChecked) {
  const SizeClass c = class_of(1024);
  std::vector<std::vector<void*>> lines = slabs_of(1024, 80);
  Heap* home = self->heap;
  const auto free_inside = [&] {
    in_thread([&] {
      deallocate(allocate(1024));
      const os::Guard guard(home->lock());
      find_stalled(home);
      for (unsigned i = 1; i < 80; ++i) give_one(lines[i]);
      ASSERT_GE(self->states[c].watched_pushes, 32);
      deallocate(inside(lines[0][0], 64));
      _exit(0);  // at the thread's end it would be found in any case
    });
  };
  EXPECT_DEATH(free_inside(), "free of an interior pointer 0x[0-9a-f]+: slab");
  release(lines);
}

class TradeDeathTest : public TradeTest {
 protected:
  // A thread that trades keeps the last object of `slab`, and frees what `next` makes of it.
  template <typename Next>
  static void keep_and_free(std::vector<void*>& slab, Next next) {
    in_thread([&] {
      use_bin(512);
      find_trading();
      const unsigned long before = turnarounds();
      void* kept = give_one(slab);
      if (turnarounds() == before + 1) deallocate(next(kept));
      _exit(0);  // at the thread's end it would be found in any case
    });
  }
};

TEST_F(TradeDeathTest, WhatIsKeptIsChecked) {
  std::vector<std::vector<void*>> lines = slabs_of(512, 2);
  EXPECT_DEATH(keep_and_free(lines[0], [&](void*) { return inside(lines[1][0], 64); }),
               "free of an interior pointer 0x[0-9a-f]+: slab");
  release(lines);
}

TEST_F(TradeDeathTest, WhatIsKeptAndFreedAgainIsSeen) {
  std::vector<std::vector<void*>> lines = slabs_of(512, 1);
  EXPECT_DEATH(keep_and_free(lines[0], [](void* kept) { return kept; }), kDoubleFree);
  release(lines);
}

TEST_F(CacheDeathTest, LaterMisuseIsSeenWhenItReachesTheSlab) {
  std::vector<void*> objects;
  for (int i = 0; i < 200; ++i) objects.push_back(allocate(96));
  for (int i = 0; i < 100; ++i) deallocate(objects[static_cast<size_t>(i)]);
  const auto misuse = [&](void* p) {
    deallocate(p);
    bins::flush_all(self);
  };
  EXPECT_DEATH((deallocate(objects[150]), misuse(objects[150])), kDoubleFree);
  EXPECT_DEATH(misuse(inside(objects[150], 32)), kInterior);
  for (size_t i = 100; i < 200; ++i) deallocate(objects[i]);
}

// Leaves room in a message for the owner, and all batches taken; returns the first slab whose next
// object goes alone.
size_t until_one_goes_alone(std::vector<std::vector<void*>>& slabs) {
  for (size_t i = 0; i < slabs.size(); ++i) {
    const unsigned long messages = self->counters.batch_messages.get();
    const unsigned long batches = self->counters.batches_sent.get();
    deallocate(slabs[i][0]);
    const bool alone = self->counters.batches_sent.get() == batches + 1 &&
                       self->counters.batch_messages.get() == messages &&
                       self->missed_slab == slab_index(slabs[i][0]) && self->misses % 7 == 1;
    if (alone) return i + 1;
  }
  return slabs.size();
}

TEST_F(CacheDeathTest, MisuseOfAnObjectThatGoesAlone) {
  std::vector<std::vector<void*>> slabs = slabs_of(1024, 100);
  const auto of_next = [&](void (*misuse)(std::vector<void*>&)) {
    in_thread([&] {
      deallocate(allocate(16));
      const size_t next = until_one_goes_alone(slabs);
      if (next == slabs.size()) _exit(0);
      const unsigned long evicted = self->counters.batches_evicted.get();
      misuse(slabs[next]);
      if (self->counters.batches_evicted.get() != evicted) _exit(1);
    });
    _exit(2);
  };
  EXPECT_DEATH(of_next([](std::vector<void*>& slab) { deallocate(inside(slab[0], 16)); }),
               kInterior);
  EXPECT_DEATH(of_next([](std::vector<void*>& slab) {
                 deallocate(slab[0]);
                 deallocate(slab[0]);
               }),
               kDoubleFree);
  EXPECT_EXIT(of_next([](std::vector<void*>& slab) { deallocate(slab[0]); }),
              testing::ExitedWithCode(2), "");
  release(slabs);
}

TEST_F(CacheDeathTest, MisuseInABatch) {
  std::vector<std::vector<void*>> slabs = slabs_of(48, 1);
  const std::vector<void*>& objects = slabs[0];
  // The first object of a batch goes a way of its own.
  EXPECT_DEATH(in_thread([&] { deallocate(inside(objects[0], 16)); }), kInterior);
  EXPECT_DEATH(in_thread([&] {
                 deallocate(objects[0]);
                 deallocate(objects[0]);
               }),
               kDoubleFree);
  EXPECT_DEATH(in_thread([&] {
                 deallocate(objects[0]);
                 deallocate(inside(objects[1], 32));
               }),
               kInterior);
  // The place behind the last object, which would make a carrier that reaches into the next slab.
  void* behind = address(slab_of(objects[0])->base + geometry(class_of(48)).objects * 48);
  EXPECT_DEATH(in_thread([&] { deallocate(behind); }), kInterior);
  EXPECT_DEATH(in_thread([&] {
                 deallocate(objects[0]);
                 deallocate(behind);
               }),
               kInterior);
  release(slabs);
}

TEST_F(CacheDeathTest, AfterTheThreadsEnd) {
  void* p = allocate(48);
  EXPECT_DEATH(batch_cache::send_single(inside(p, 16), pagemap.of(p)), kInterior);
  deallocate(p);
}

TEST_F(CacheDeathTest, PointersThatAreNotLofts) {
  alignas(16) char local[64];
  void* volatile hidden = local;
  EXPECT_DEATH(deallocate(hidden), "free of a foreign pointer .*: 0x");
  EXPECT_DEATH(deallocate(address(16)), "free of a foreign pointer .*: 0x10");
  void* p = allocate(48);
  EXPECT_DEATH(deallocate(inside(p, 1)), "free of a misaligned pointer 0x[0-9a-f]+: slab 0x");
  EXPECT_DEATH((void)!reallocate(inside(p, 1), 100), "realloc of a misaligned pointer 0x");
  void* large = allocate(100'000);
  EXPECT_DEATH(deallocate(inside(large, 4096)),
               "free of an interior pointer 0x[0-9a-f]+: object 0x[0-9a-f]+ of 102400 bytes");
  EXPECT_DEATH((deallocate(large), deallocate(large)),
               "free of a pointer to memory that is not allocated .*: 0x");
  EXPECT_DEATH(usable_size(hidden), "malloc_usable_size of a foreign pointer");
  EXPECT_DEATH((void)!reallocate(hidden, 100), "realloc of a foreign pointer");
  deallocate(large);
  deallocate(p);
}

TEST_F(CacheTest, ForeignPointersMayBeIgnored) {
  options.misuse.store(1);
  alignas(16) char local[64];
  void* volatile hidden = local;
  testing::internal::CaptureStderr();
  deallocate(hidden);
  EXPECT_EQ(usable_size(hidden), 0u);
  errno = 0;
  EXPECT_EQ(reallocate(hidden, 100), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << said;
}

// The block to be visited next may be the last, and go meanwhile: no block is visited twice.
TEST_F(CacheTest, VisitsEndThoughTheLastBlockHasGone) {
  deallocate(allocate(48));  // this thread has a block, and is the first one: the last of the list
  std::barrier step(2);
  std::thread other([&] {
    youth::end();
    deallocate(allocate(48));
    step.arrive_and_wait();
    step.arrive_and_wait();
  });
  step.arrive_and_wait();
  unsigned visits = 0;
  const auto count = [](void* sum, ThreadCache*) {
    ++*static_cast<unsigned*>(sum);
    return false;
  };
  {
    const os::Guard guard(lifecycle::visiting);
    lifecycle::restart_visits();
    EXPECT_FALSE(lifecycle::visit_threads(count, &visits));
    lifecycle::give_up_cache();
    EXPECT_TRUE(lifecycle::visit_threads(count, &visits));
    EXPECT_EQ(visits, 1u);
    lifecycle::visit_threads(count, &visits);
    EXPECT_EQ(visits, 2u) << "the next visits begin anew";
  }
  step.arrive_and_wait();
  other.join();
}

}  // namespace
}  // namespace loft
