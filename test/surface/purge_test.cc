// What loft_purge reaches, and threads that say that they wait.
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "background.h"
#include "loft/loft.h"
#include "surface/heap_stats.h"
#include "surface/support.h"

namespace {

using surface::stats;

constexpr size_t kObjects = 20'000;
constexpr size_t kSize = 1000;

// Allocates and frees 20 MB, which leaves a cache full of them and whole slabs.
void fill_and_free() {
  std::vector<void*> objects(kObjects);
  for (void*& p : objects) {
    p = malloc(kSize);
    memset(p, 1, kSize);
  }
  for (void* p : objects) free(p);
}

TEST(Purge, ReachesThreadsThatSayThatTheyWaitAndThreadsThatEnded) {
  std::atomic<int> state{0};
  std::thread waiting([&] {
    fill_and_free();
    loft_idle_begin();
    state.store(1);
    state.notify_one();
    state.wait(1);
    loft_idle_end();
  });
  std::thread(fill_and_free).join();
  fill_and_free();
  state.wait(0);
  loft_unreached_t unreached = {};
  const uint64_t purged = loft_purge(&unreached);
  EXPECT_EQ(unreached.threads, 0u);
  EXPECT_EQ(unreached.bytes, 0u);
  EXPECT_GT(purged, kObjects * kSize);
  const loft_stats_t s = stats();
  EXPECT_EQ(s.dirty_bytes, 0u);
  EXPECT_LT(s.slab_bytes, 8u << 20);
  state.store(2);
  state.notify_one();
  waiting.join();
}

// Fills slabs and leaves one object of fifty in them.
struct Holes {
  Holes() {
    for (void*& p : objects) {
      p = malloc(kSize);
      memset(p, 1, kSize);
    }
    for (size_t i = 0; i < kObjects; ++i) {
      if (i % 50 != 0) free(objects[i]);
    }
  }
  ~Holes() {
    for (size_t i = 0; i < kObjects; i += 50) free(objects[i]);
  }
  std::vector<void*> objects = std::vector<void*>(kObjects);
};

// While there is one, nobody gives memory back but who is told to.
struct NothingDecays {
  NothingDecays() { EXPECT_EQ(loft_option_set("decay_ms", "0"), 0); }
  ~NothingDecays() { EXPECT_EQ(loft_option_set("decay_ms", "500"), 0); }
};

// A thread that waits, with holes in its slabs.
class Waiting {
 public:
  Waiting()
      : thread_([this] {
          const Holes holes;
          state_.store(1);
          state_.notify_one();
          state_.wait(1);
        }) {
    state_.wait(0);
  }
  ~Waiting() {
    state_.store(2);
    state_.notify_one();
    thread_.join();
  }

 private:
  std::atomic<int> state_{0};
  std::thread thread_;
};

// True if such a call gives back the holes of that many objects.
template <class GiveBack>
bool gives_holes_back(GiveBack give_back) {
  const uint64_t before = stats().hole_bytes;
  give_back();
  return stats().hole_bytes - before > kObjects * kSize / 4;
}

TEST(Purge, ReachesTheSlabsOfThreadsThatRun) {
  const NothingDecays nothing_decays;
  std::atomic<int> state{0};
  std::thread busy([&] {
    const Holes holes;
    state.store(1);
    while (state.load() == 1) {
    }
  });
  while (state.load() == 0) {
  }
  EXPECT_TRUE(gives_holes_back([] { loft_purge(nullptr); }));
  state.store(2);
  busy.join();
}

TEST(Trim, ReachesTheSlabsOfThreadsThatWait) {
  const NothingDecays nothing_decays;
  const Waiting waiting;
  EXPECT_TRUE(gives_holes_back([] { loft_malloc_trim(0); }));
}

TEST(Purge, CountsWhatItGivesBackOfOthersSlabs) {
  const NothingDecays nothing_decays;
  const Waiting waiting;
  const uint64_t before = stats().hole_bytes;
  const uint64_t purged = loft_purge(nullptr);
  const uint64_t after = stats().hole_bytes;
  EXPECT_GT(after, kObjects * kSize / 4);
  EXPECT_GE(purged + before, after);
}

TEST(Purge, TellsOfThreadsThatRun) {
  std::atomic<bool> stop{false};
  std::atomic<bool> running{false};
  std::thread busy([&] {
    fill_and_free();
    running.store(true);
    while (!stop.load()) {
    }
  });
  while (!running.load()) {
  }
  loft_unreached_t unreached = {};
  loft_purge(&unreached);
  EXPECT_GE(unreached.threads, 1u);
  EXPECT_GE(unreached.bytes, kSize);
  loft_purge(nullptr);
  stop.store(true);
  busy.join();
}

TEST(Idle, WhatAWaitingThreadHasIsOthers) {
  std::atomic<int> state{0};
  std::thread thread([&] {
    std::vector<void*> objects(kObjects);
    for (void*& p : objects) p = malloc(kSize);
    for (void* p : objects) free(p);
    loft_idle_begin();
    state.store(1);
    state.notify_one();
    state.wait(1);
    loft_idle_end();
    void* p = malloc(kSize);
    memset(p, 2, kSize);
    free(p);
    loft_idle_begin();  // and a call of loft ends it
    free(malloc(kSize));
    loft_idle_end();
    loft_idle_end();
  });
  state.wait(0);
  // All but one object of each class that it used.
  EXPECT_LT(stats().allocated_bytes, kObjects * kSize / 4);
  state.store(2);
  state.notify_one();
  thread.join();
}

// Pages of [p, p + bytes) that have memory.
size_t resident_pages(char* p, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(p) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(p) + bytes) / page * page;
  std::vector<unsigned char> pages((last - first) / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(first), last - first, pages.data()), 0);
  size_t count = 0;
  for (const unsigned char each : pages) count += each & 1u;
  return count;
}

TEST(Purge, CallocTouchesNoPageWithoutMemory) {
  constexpr size_t kBytes = 20'000;
  constexpr size_t kMany = 400;
  // On pages that were never used, or that the system has taken back, whoever had them before.
  for (int round = 0; round < 2; ++round) {
    loft_unreached_t unreached = {};
    loft_purge(&unreached);
    std::vector<char*> objects;
    size_t resident = 0;
    for (size_t i = 0; i < kMany; ++i) {
      auto* p = static_cast<char*>(calloc(1, kBytes));
      ASSERT_NE(p, nullptr);
      resident += resident_pages(p, kBytes);
      objects.push_back(p);
    }
    // A few come out of the thread's cache, and every object's ends lie on a neighbour's page.
    EXPECT_LT(resident, kMany / 4);
    for (char* p : objects) {
      for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(p[i], 0);
      memset(p, 0x5a, kBytes);
    }
    for (char* p : objects) free(p);
  }
}

}  // namespace
