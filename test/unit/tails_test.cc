// What stays resident behind large objects, and goes back while they live.
#include "large/tails.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "control.h"
#include "front/allocate.h"
#include "large/large.h"
#include "limits/limits.h"
#include "os/os.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::number;

size_t page() { return os::page_size(); }

Large* of(void* p) { return large::at(pagemap.of(p)); }

// Bytes of the object's granules that are resident behind its end.
size_t tail_of(void* p) {
  const uintptr_t end = of(p)->base + of(p)->bytes;
  const uintptr_t limit = of(p)->base + (of(p)->granules << kGranuleLog);
  std::vector<unsigned char> pages((limit - end) / page());
  if (pages.empty()) return 0;
  EXPECT_EQ(mincore(address(end), limit - end, pages.data()), 0);
  size_t resident = 0;
  for (const unsigned char state : pages) resident += (state & 1) != 0 ? page() : 0;
  return resident;
}

class TailsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(span::initialise());
    if (kGranule / page() < 8) GTEST_SKIP() << "a granule has few pages";
    span::purge(0);
  }
  void TearDown() override {
    for (void* p : held_) large::release(of(p));
    tails::purge(0);
    EXPECT_TRUE(tails::none()) << "of no object";
  }

  void* allocate(size_t bytes) {
    held_.push_back(test::allocate_large(bytes, kGranule, false));
    return held_.back();
  }
  void release(void* p) {
    std::erase(held_, p);
    large::release(of(p));
  }
  // A span of so many granules that was written all over.
  void soil(size_t granules) {
    void* p = allocate(granules << kGranuleLog);
    memset(p, 0x5a, granules << kGranuleLog);
    release(p);
  }
  // Where the object before it was longer.
  void* allocate_on_used(size_t bytes) {
    soil(large::granules_for(bytes));
    void* p = allocate(bytes);
    memset(p, 0x11, bytes);
    return p;
  }
  void resize(void* p, size_t bytes) { ASSERT_EQ(large::resize(of(p), bytes), p); }
  static bool has_only(const void* p, int byte, size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(p);
    return std::all_of(at, at + bytes, [byte](unsigned char c) { return c == byte; });
  }

  std::vector<void*> held_;
  test::DefaultOptions defaults_;
};

TEST_F(TailsTest, GoesBackWhileTheObjectLives) {
  const size_t bytes = 2 * kGranule + 3 * page();
  void* p = allocate_on_used(bytes);
  EXPECT_EQ(tail_of(p), kGranule - 3 * page());
  EXPECT_FALSE(tails::none());
  const size_t before = tails::purged_bytes();
  EXPECT_EQ(tails::purge(0), kGranule - 3 * page());
  EXPECT_EQ(tails::purged_bytes() - before, kGranule - 3 * page());
  EXPECT_EQ(tail_of(p), 0u);
  EXPECT_TRUE(tails::none());
  EXPECT_TRUE(has_only(p, 0x11, bytes));
  EXPECT_EQ(tails::purge(0), 0u);
}

TEST_F(TailsTest, OfFreshPagesThereIsNone) {
  while (span::totals().clean != 0)
    held_.push_back(test::allocate_large(kGranule, kGranule, false));
  const void* p = allocate(page());
  EXPECT_TRUE(p != nullptr && tails::none());
}

TEST_F(TailsTest, NotBeforeItsTime) {
  void* p = allocate_on_used(page());
  for (unsigned tick = 0; tick < span::kDecayTicks; ++tick) {
    EXPECT_EQ(tails::purge(span::kDecayTicks), 0u) << tick;
    EXPECT_FALSE(tails::none());
    span::idle_bytes();
  }
  EXPECT_EQ(tails::purge(span::kDecayTicks), kGranule - page());
  EXPECT_EQ(tail_of(p), 0u);
}

TEST_F(TailsTest, WithTheObjectItIsForgotten) {
  release(allocate_on_used(page()));
  EXPECT_EQ(tails::purge(0), 0u);
  EXPECT_TRUE(tails::none());
  // Nor may the granule's next user lose anything.
  void* p = allocate(kGranule);
  memset(p, 0x22, kGranule);
  EXPECT_EQ(tails::purge(0), 0u);
  EXPECT_TRUE(has_only(p, 0x22, kGranule));
}

TEST_F(TailsTest, AnObjectThatGrowsIntoIt) {
  void* p = allocate_on_used(page());
  resize(p, 5 * page());
  memset(p, 0x33, 5 * page());
  EXPECT_EQ(tails::purge(0), kGranule - 5 * page());
  EXPECT_TRUE(has_only(p, 0x33, 5 * page()));
  resize(p, 7 * page());
  memset(p, 0x44, 7 * page());
  EXPECT_EQ(tails::purge(0), 0u) << "nothing was there";
  resize(p, kGranule);
  memset(p, 0x55, kGranule);
  EXPECT_EQ(tails::purge(0), 0u);
  EXPECT_TRUE(has_only(p, 0x55, kGranule));
}

TEST_F(TailsTest, AnObjectThatGrowsBeyondIt) {
  soil(3);
  void* p = allocate(page());
  ASSERT_NE(p, nullptr);
  resize(p, 2 * kGranule + page());
  memset(p, 0x66, 2 * kGranule + page());
  EXPECT_EQ(tails::purge(0), kGranule - page()) << "the new one alone";
  EXPECT_TRUE(has_only(p, 0x66, 2 * kGranule + page()));
}

TEST_F(TailsTest, AnObjectThatCannotGrowKeepsIt) {
  void* p = allocate_on_used(kGranule + page());
  const uintptr_t end = of(p)->base + 2 * kGranule;
  bool zero = true;
  ASSERT_TRUE(span::extend(end, 1, zero, kGranule));  // somebody else's now
  EXPECT_EQ(large::resize(of(p), 2 * kGranule + page()), nullptr);
  EXPECT_EQ(tails::purge(0), kGranule - page());
  EXPECT_EQ(tail_of(p), 0u);
  span::release(end, 1, true);
}

TEST_F(TailsTest, AnObjectThatShrinks) {
  soil(1);
  void* p = allocate(3 * kGranule);
  memset(p, 0x77, 3 * kGranule);
  resize(p, 2 * kGranule + page());
  EXPECT_EQ(tails::purge(0), kGranule - page());
  resize(p, kGranule + 2 * page());
  EXPECT_EQ(tails::purge(0), kGranule - 2 * page());
  EXPECT_EQ(tail_of(p), 0u);
  EXPECT_TRUE(has_only(p, 0x77, kGranule + 2 * page()));
}

TEST_F(TailsTest, AnObjectThatMoves) {
  if (!os::can_move_pages(false)) GTEST_SKIP() << "pages do not move here";
  const size_t bytes = 8 * kGranule + page();
  void* p = allocate_on_used(bytes);
  const uintptr_t end = of(p)->base + (of(p)->granules << kGranuleLog);
  bool zero = true;
  ASSERT_TRUE(span::extend(end, 1, zero, kGranule));
  soil(20);
  void* moved = large::resize(of(p), 10 * kGranule + page());
  if (moved != nullptr) {
    EXPECT_NE(moved, p);
    std::erase(held_, p);
    held_.push_back(moved);
    EXPECT_TRUE(has_only(moved, 0x11, bytes));
    const size_t behind = tail_of(moved);
    EXPECT_EQ(tails::purge(0), behind == 0 ? 0 : kGranule - page());
    EXPECT_EQ(tail_of(moved), 0u);
    EXPECT_TRUE(has_only(moved, 0x11, bytes));
  }
  span::release(end, 1, true);
}

TEST_F(TailsTest, AtOnceUnderAHardLimit) {
  soil(1);
  options.hard_limit.store(span::committed() + (64 << 20));
  void* p = allocate(page());
  EXPECT_EQ(tail_of(p), 0u);
  EXPECT_TRUE(tails::none());
}

TEST_F(TailsTest, LockedPagesStayAndAreNotAskedForAgain) {
  void* p = allocate_on_used(page());
  // The sanitizers' own mlock does nothing.
  if (syscall(SYS_mlock, number(p) + page(), page()) != 0) {
    GTEST_SKIP() << "nothing can be locked";
  }
  EXPECT_EQ(tails::purge(0), 0u);
  EXPECT_TRUE(tails::none());
  EXPECT_GE(tail_of(p), page());
  EXPECT_EQ(syscall(SYS_munlock, number(p) + page(), page()), 0);
}

// Objects are resized, freed and made anew, and written to their ends, while somebody gives every
// tail back as soon as it is noted.
TEST_F(TailsTest, BesideThreadsThatUseTheirs) {
  constexpr unsigned kThreads = 3;
  constexpr unsigned kObjects = 24;
  constexpr unsigned kSteps = 4'000;
  std::atomic<unsigned> running{kThreads};
  std::atomic<unsigned> bad{0};
  // Before any of them runs: the last one may have ended when this thread goes on.
  const size_t purged = tails::purged_bytes();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      struct Object {
        char* at;
        size_t bytes;
      };
      Object objects[kObjects] = {};
      const auto stamp = [](const Object& o) { return static_cast<char>(number(o.at) >> 16 | 1); };
      // Every page has a mark in its first and last byte.
      const auto mark = [&](const Object& o) {
        for (size_t i = 0; i < o.bytes; i += page()) o.at[i] = o.at[i + page() - 1] = stamp(o);
      };
      const auto check = [&](const Object& o, size_t bytes, char expected) {
        for (size_t i = 0; i < bytes; i += page()) {
          bad += o.at[i] != expected || o.at[i + page() - 1] != expected;
        }
      };
      for (unsigned step = 0; step < kSteps; ++step) {
        if (step % 256 == 0) tails::purge(0);
        Object& o = objects[random() % kObjects];
        const size_t bytes = (1 + random() % 48) * page();
        if (o.at == nullptr) {
          o.at = static_cast<char*>(test::allocate_large(bytes, kGranule, false));
          if (o.at == nullptr) continue;
        } else if (random() % 2 == 0) {
          check(o, o.bytes, stamp(o));
          const char before = stamp(o);
          void* resized = large::resize(of(o.at), bytes);
          if (resized == nullptr) continue;
          o.at = static_cast<char*>(resized);
          check(o, std::min(o.bytes, bytes), before);
        } else {
          check(o, o.bytes, stamp(o));
          large::release(of(o.at));
          o = {};
          continue;
        }
        o.bytes = bytes;
        mark(o);
      }
      for (const Object& o : objects) {
        if (o.at == nullptr) continue;
        check(o, o.bytes, stamp(o));
        large::release(of(o.at));
      }
      --running;
    });
  }
  std::thread other([&] {
    while (running != 0) {
      tails::purge(0);
      std::this_thread::yield();
    }
  });
  while (running != 0) {
    tails::purge(0);
    std::this_thread::yield();
  }
  other.join();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0u);
  EXPECT_GT(tails::purged_bytes(), purged);
}

// Who wants all of them gets all, whoever else looks for old ones at that moment.
TEST_F(TailsTest, AllMeansAll) {
  void* p = allocate_on_used(page());
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) tails::purge(255);
  });
  for (int round = 0; round < 2'000; ++round) {
    resize(p, 2 * page());
    memset(p, 0x11, 2 * page());
    resize(p, page());
    tails::purge(0);
    EXPECT_EQ(tail_of(p), 0u);
  }
  done = true;
  other.join();
}

// Else a program that resizes what it has again and again would keep its tail for ever.
TEST_F(TailsTest, AnObjectThatGrowsALittleIsNoYounger) {
  void* p = allocate_on_used(page());
  for (unsigned tick = 0; tick < span::kDecayTicks; ++tick) {
    EXPECT_EQ(tails::purge(span::kDecayTicks), 0u);
    resize(p, (1 + tick / 3) * page());
    span::idle_bytes();
  }
  EXPECT_EQ(tails::purge(span::kDecayTicks), kGranule - of(p)->bytes);
  EXPECT_EQ(tail_of(p), 0u);
}

TEST_F(TailsTest, AForkFindsNothingHalfDone) {
  deallocate(allocate(16));  // from then on forks wait for tails
  void* p = allocate_on_used(page());
  std::atomic<bool> done{false};
  // Old ones, of which there are none; or all.
  std::atomic<uint32_t> ticks{255};
  std::thread giver([&] {
    while (!done) tails::purge(ticks);
  });
  for (int round = 0; round < 100; ++round) {
    ticks = round % 2 == 0 ? 255 : 0;
    resize(p, 3 * page());
    memset(p, 0x11, 3 * page());
    resize(p, page());
    const pid_t child = fork();
    if (child == 0) {
      test::end_what_hangs();
      for (int tick = 0; tick < 6; ++tick) span::idle_bytes();
      tails::purge(5);
      if (tail_of(p) != 0) _exit(1);
      // Would wait for ever for who claimed it.
      static_cast<void>(large::resize(of(p), 3 * page()));
      _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
  giver.join();
}

}  // namespace
}  // namespace loft
