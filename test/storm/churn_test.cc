// Threads that come and go, and the heaps that they leave behind.
#include <gtest/gtest.h>

#include <barrier>

#include "os/os.h"
#include "runtime/youth.h"
#include "storm/support.h"

namespace storm {
namespace {

class Churn : public Storm {};

constexpr size_t kSizes[] = {16, 48, 64, 320, 2'000, 100'000};

void touch_the_heap(unsigned seed) {
  void* held[24];
  for (unsigned i = 0; i < std::size(held); ++i) {
    held[i] = make(i, kSizes[(i + seed) % std::size(kSizes)]);
  }
  for (unsigned i = 0; i < std::size(held); ++i) {
    EXPECT_EQ(check_and_free(held[i], i, kSizes[(i + seed) % std::size(kSizes)]), 0u);
  }
}

TEST_F(Churn, OneAfterTheOtherUseOneHeap) {
  const auto run = [](unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) std::thread(touch_the_heap, i).join();
    return stats_at_rest();
  };
  const loft_stats_t warm = run(8);
  const unsigned threads = scaled(5'000);
  const loft_stats_t after = run(threads);
  // A processor has a heap from its first thread on.
  const size_t more_heaps = owner_is("cpu") ? loft::os::processors() : 0;
  EXPECT_GE(after.heaps, warm.heaps);
  EXPECT_LE(after.heaps, warm.heaps + more_heaps);
  EXPECT_EQ(after.threads_attached, warm.threads_attached);
  if (threads_own()) {
    EXPECT_EQ(after.adoptions, warm.adoptions + threads);
    EXPECT_EQ(after.threads_exited, warm.threads_exited + threads);
    EXPECT_EQ(after.metadata_bytes, warm.metadata_bytes);
    EXPECT_EQ(after.slab_bytes, warm.slab_bytes);
  }
  expect_all_home(std::size(kSizes), 256 << 10);
}

// Waves of threads that are all alive at once and free each other's objects.
TEST_F(Churn, WavesUseTheHeapsOfTheFirst) {
  constexpr unsigned kThreads = 16;
  const auto run = [](unsigned waves) {
    for (unsigned wave = 0; wave < waves; ++wave) {
      std::barrier meet(kThreads);
      Street street(kThreads);
      on_threads(kThreads, [&](unsigned self) {
        street.put(self, make(self, 64));
        touch_the_heap(self);
        meet.arrive_and_wait();
        const unsigned other = (self + 1) % kThreads;
        EXPECT_EQ(check_and_free(street.take(other), other, 64), 0u);
      });
    }
    return stats_at_rest();
  };
  const loft_stats_t warm = run(2);
  const unsigned waves = scaled(150);
  const loft_stats_t after = run(waves);
  // A processor that ran no thread of the first waves may run one of the others.
  const size_t more_heaps = owner_is("cpu") ? loft::os::processors() : 0;
  EXPECT_GE(after.heaps, warm.heaps);
  EXPECT_LE(after.heaps, warm.heaps + more_heaps);
  if (threads_own()) {
    EXPECT_EQ(after.adoptions, warm.adoptions + waves * kThreads);
  }
  EXPECT_EQ(after.threads_attached, warm.threads_attached);
  // How spans were cut differs from wave to wave; a block for each thread would be megabytes.
  EXPECT_LE(after.metadata_bytes, warm.metadata_bytes + (64 << 10));
  expect_all_home(std::size(kSizes) + 1, 256 << 10);
}

// Threads allocate, hand everything over and end; others free into the heaps whose threads are
// ending, are gone, or are new.
TEST_F(Churn, OwnersEndWhileOthersFree) {
  constexpr unsigned kOwners = 4;
  constexpr unsigned kFreers = 3;
  constexpr unsigned kObjects = 1'500;
  const unsigned waves = scaled(60);
  const unsigned objects = waves * kOwners * kObjects;
  const auto size = [](unsigned i) { return kSizes[i % 4]; };
  Street street(objects);
  std::atomic<unsigned> bad{0};
  on_threads(1 + kFreers, [&](unsigned self) {
    if (self == kFreers) {
      for (unsigned wave = 0; wave < waves; ++wave) {
        on_threads(kOwners, [&, wave](unsigned owner) {
          const unsigned first = (wave * kOwners + owner) * kObjects;
          for (unsigned i = first; i < first + kObjects; ++i) street.put(i, make(i, size(i)));
        });
      }
      return;
    }
    unsigned faults = 0;
    for (unsigned i = self; i < objects; i += kFreers) {
      faults += check_and_free(street.take(i), i, size(i));
    }
    bad += faults;
  });
  EXPECT_EQ(bad, 0u);
  // The owners of each wave but the first found the heaps of the wave before them.
  if (threads_own()) {
    EXPECT_GE(stats().adoptions - before_.adoptions, (waves - 1) * kOwners);
  }
  expect_all_home(4);
}

TEST_F(Churn, AThreadThatOnlyFreesHasNoHeap) {
  constexpr unsigned kThreads = 8;
  const unsigned objects = scaled(20'000);
  std::vector<void*> mine(size_t{kThreads} * objects);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = make(i, kSizes[i % 4]);
  const loft_stats_t before = stats();
  std::barrier meet(kThreads + 1);
  std::atomic<unsigned> bad{0};
  std::thread all([&] {
    on_threads(kThreads, [&](unsigned self) {
      loft::youth::end();
      unsigned faults = 0;
      for (size_t i = self; i < mine.size(); i += kThreads) {
        faults += check_and_free(mine[i], i, kSizes[i % 4]);
      }
      bad += faults;
      meet.arrive_and_wait();
      meet.arrive_and_wait();
    });
  });
  meet.arrive_and_wait();
  const loft_stats_t during = stats();
  meet.arrive_and_wait();
  all.join();
  EXPECT_EQ(bad, 0u);
  EXPECT_EQ(during.threads_attached, before.threads_attached + kThreads);
  EXPECT_EQ(during.heaps, before.heaps);
  EXPECT_EQ(during.heaps_parked, before.heaps_parked);
  EXPECT_EQ(during.adoptions, before.adoptions);
  expect_all_home(4);
}

}  // namespace
}  // namespace storm
