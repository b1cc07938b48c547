// A young thread: it has no block, takes what it needs from the heap that such threads share, and
// keeps nothing.
#include "runtime/youth.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/look.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "os/lock.h"
#include "runtime/lifecycle.h"
#include "stats/net.h"
#include "support.h"

namespace loft {
namespace {

class Youth : public testing::Test {
 protected:
  test::DefaultOptions defaults_;
  void* const first_ = allocate(16);  // the first thread is never young
  Youth() { youth::block_at_hand.store(false); }
  ~Youth() override { deallocate(first_); }
};

void in_young_thread(const std::function<void()>& work) {
  std::thread thread(work);
  thread.join();
}

bool has_block() { return self != &empty_cache; }

ptrdiff_t net() {
  ptrdiff_t bytes = 0;
  EXPECT_TRUE(read_net_bytes(&bytes));
  return bytes;
}

size_t shared_bytes() { return registry::shared_heap()->counters().allocated_bytes(); }

TEST_F(Youth, TheFirstThreadHasNone) { EXPECT_TRUE(has_block()); }

TEST_F(Youth, KeepsNothing) {
  const size_t before = shared_bytes();
  in_young_thread([&] {
    std::vector<void*> objects;
    for (size_t size = 1; size <= kSmallMax; size = size * 3 / 2 + 1) {
      void* const p = allocate(size);
      memset(p, 0x3c, size);
      objects.push_back(p);
      EXPECT_EQ(pagemap.of(p).owner(), registry::shared_heap()->id());
      EXPECT_GE(usable_size(p), size);
      EXPECT_EQ(usable_size(p) % kCacheLine, 0u) << "shares no line";
    }
    EXPECT_GT(shared_bytes(), before);
    for (void* p : objects) deallocate(p);
    EXPECT_EQ(shared_bytes(), before) << "each is back at once";
    EXPECT_FALSE(has_block());
  });
  EXPECT_EQ(shared_bytes(), before);
}

// What cache-scratch and cache-thrash measure: threads that write to objects of their own move no
// line between them. Two young threads take turns, object by object; the one grows up meanwhile,
// and the first thread has a block all the time.
TEST_F(Youth, SharesNoLineWithAnyThread) {
  constexpr size_t kSizes[] = {1, 16, 17, 40, 100, 200, 1000};
  constexpr unsigned kRounds = 20;
  constexpr unsigned kThreads = 3;
  std::vector<void*> objects[kThreads];
  std::atomic<unsigned> turn{0};
  const auto take = [&](unsigned thread) {
    for (unsigned round = 0; round < kRounds; ++round) {
      while (turn.load() % kThreads != thread) std::this_thread::yield();
      for (const size_t size : kSizes) objects[thread].push_back(allocate(size));
      if (thread == 1 && round == kRounds / 2) {
        for (unsigned call = 0; call <= youth::kCalls; ++call) deallocate(allocate(16));
        EXPECT_TRUE(has_block());
      }
      ++turn;
    }
    EXPECT_EQ(has_block(), thread != 0);
  };
  std::thread young([&] { take(0); });
  std::thread grows([&] { take(1); });
  take(2);
  young.join();
  grows.join();
  std::map<uintptr_t, unsigned> lines;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    for (void* p : objects[thread]) {
      const uintptr_t begin = test::number(p);
      for (uintptr_t at = begin; at < begin + usable_size(p); at += kAlignment) {
        const auto [line, is_first] = lines.try_emplace(at / kCacheLine, thread);
        ASSERT_EQ(line->second, thread) << "object of " << usable_size(p) << " bytes";
      }
    }
  }
  for (const auto& of_thread : objects) {
    for (void* p : of_thread) deallocate(p);
  }
}

TEST_F(Youth, AlignsAndClears) {
  in_young_thread([&] {
    std::vector<void*> objects;
    for (size_t alignment = 16; alignment <= kSmallMax; alignment *= 2) {
      for (const size_t size : {size_t{1}, size_t{40}, size_t{100}, alignment}) {
        void* const p = allocate_aligned(alignment, size);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u) << size;
        objects.push_back(p);
      }
    }
    for (void* p : objects) deallocate(p);
    for (int round = 0; round < 3; ++round) {
      for (const size_t size : {size_t{10}, size_t{5000}, kSmallMax}) {
        auto* const p = static_cast<char*>(allocate_zeroed(size));
        for (size_t i = 0; i < size; ++i) ASSERT_EQ(p[i], 0) << i;
        memset(p, 0x3c, size);
        deallocate(p);
      }
    }
    EXPECT_FALSE(has_block());
  });
}

TEST_F(Youth, EndsAfterSomeCalls) {
  in_young_thread([] {
    void* const early = allocate(48);
    uint32_t calls = 1;
    while (!has_block()) {
      ASSERT_LT(calls, 2 * youth::kCalls);
      deallocate(allocate(48));
      calls += 2;
    }
    EXPECT_GE(calls, youth::kCalls);
    EXPECT_NE(self->owner, registry::shared_heap()->id());
    deallocate(early);
    deallocate(allocate(48));
  });
}

TEST_F(Youth, EndsWhenItWaitsTwice) {
  in_young_thread([] {
    void* const p = allocate(48);
    const os::Lock& lock = registry::shared_heap()->lock();
    for (int wait = 0; wait < 2; ++wait) {
      EXPECT_TRUE(youth::is_young());
      const os::Guard guard(registry::shared_heap()->lock());
      youth::count_call(lock);
    }
    EXPECT_FALSE(youth::is_young());
    deallocate(p);
    deallocate(allocate(48));
    EXPECT_TRUE(has_block());
  });
}

TEST_F(Youth, WhatItFreesOfAnotherHeapIsBackAtOnce) {
  const ptrdiff_t net_before = net();
  std::vector<void*> objects;
  for (int i = 0; i < 20; ++i) objects.push_back(allocate(200));
  Heap& heap = *self->heap;
  const size_t before = heap.counters().allocated_bytes();
  in_young_thread([&] {
    for (void* p : objects) deallocate(p);
    EXPECT_FALSE(has_block());
    EXPECT_EQ(net(), -20 * ptrdiff_t{208});
  });
  EXPECT_EQ(heap.counters().allocated_bytes(), before - size_t{20} * 208);
  EXPECT_EQ(net(), net_before + 20 * 208) << "who allocated them did not free them";
}

TEST_F(Youth, WhatItFreesOfAHeapWhoseLockIsHeldIsSent) {
  void* const p = allocate(200);
  Heap& heap = *self->heap;
  const size_t before = heap.counters().objects_received();
  {
    const os::Guard guard(heap.lock());
    in_young_thread([&] { deallocate(p); });
    heap.drain_all();
  }
  EXPECT_EQ(heap.counters().objects_received(), before + 1);
}

// The first thread sends what it holds for others, and the shared heap takes it in.
void settle() {
  lifecycle::give_up_cache();
  const os::Guard guard(registry::shared_heap()->lock());
  registry::shared_heap()->drain_all();
}

TEST_F(Youth, WhatOthersFreeComesHome) {
  settle();
  std::vector<void*> objects;
  in_young_thread([&] {
    for (int i = 0; i < 20; ++i) objects.push_back(allocate(200));
  });
  const size_t before = shared_bytes();
  for (void* p : objects) deallocate(p);
  settle();
  EXPECT_EQ(shared_bytes(), before - 20 * class_size(class_of(200) | 3));
}

TEST_F(Youth, CountsWhatTheThreadHas) {
  void* const others = allocate(512);
  in_young_thread([&] {
    EXPECT_EQ(net(), 0);
    void* const p = allocate(40);
    EXPECT_EQ(net(), 64);
    deallocate(others);
    EXPECT_EQ(net(), 64 - 512);
    while (!has_block()) deallocate(allocate(100));
    EXPECT_EQ(net(), 64 - 512) << "the block goes on";
    deallocate(p);
    EXPECT_EQ(net(), -512);
  });
}

TEST_F(Youth, AWaitNeedsNoBlock) {
  in_young_thread([] {
    deallocate(allocate(40));
    idle::begin_wait();
    EXPECT_FALSE(has_block());
  });
}

TEST_F(Youth, AChildGoesOn) {
  in_young_thread([] {
    void* const p = allocate(40);
    EXPECT_TRUE(test::child_passes([=] {
      deallocate(p);
      void* const q = allocate(40);
      deallocate(q);
      return q != nullptr && !has_block();
    }));
    deallocate(p);
  });
}

// Where every thread ends before its own look is due, nothing would be purged.
TEST_F(Youth, LooksWithTheOthers) {
  int looks = 0;
  for (unsigned i = 0; i < 2 * kSlowPathsPerLook; ++i) {
    in_young_thread([&] {
      slow_paths_left = 255;
      deallocate(allocate(40));
      if (slow_paths_left <= kSlowPathsPerLook) ++looks;
    });
  }
  EXPECT_EQ(looks, 2);
}

TEST_F(Youth, IsNotWhereABlockIsAtHand) {
  test::in_thread([] { deallocate(allocate(40)); });
  in_young_thread([] {
    deallocate(allocate(40));
    EXPECT_TRUE(has_block()) << "that of the thread that has ended";
  });
}

TEST_F(Youth, AWaitMakesNoBlock) {
  in_young_thread([&] {
    for (unsigned i = 0; i < youth::kCalls / 2; ++i) deallocate(allocate(40));
    idle::begin_wait();
    EXPECT_FALSE(has_block());
  });
}

using YouthDeathTest = Youth;

TEST_F(YouthDeathTest, MisuseIsTold) {
  EXPECT_DEATH(in_young_thread([] {
                 void* const p = allocate(40);
                 allocate(40);  // so that the slab stays
                 deallocate(p);
                 deallocate(p);
               }),
               "double free of");
  EXPECT_DEATH(in_young_thread([] { deallocate(static_cast<char*>(allocate(40)) + 16); }),
               "interior pointer");
  void* const others = allocate(40);
  EXPECT_DEATH(in_young_thread([=] { deallocate(static_cast<char*>(others) + 16); }),
               "interior pointer");
}

}  // namespace
}  // namespace loft
