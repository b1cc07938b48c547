// Slabs change hands while their objects are in use, in caches and on their way home.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "storm/support.h"

namespace storm {
namespace {

constexpr size_t kLitterSizes[] = {64, 200, 1'000, 4'000};
size_t size(uint64_t id) { return kLitterSizes[id % std::size(kLitterSizes)]; }

class TakeOver : public Storm {
 protected:
  uint64_t taken_over() const { return stats().slabs_taken_over - before_.slabs_taken_over; }
};

struct Litter {
  void* p;
  uint64_t id;
};

// A thread that leaves every eighth of its objects behind and ends.
std::vector<Litter> littered(uint64_t wave, unsigned objects) {
  std::vector<Litter> left;
  std::thread([&] {
    std::vector<Litter> all;
    for (uint64_t i = 0; i < objects; ++i) {
      const uint64_t id = wave << 32 | i;
      all.push_back({make(id, size(id)), id});
    }
    unsigned bad = 0;
    for (const Litter& object : all) {
      if (object.id / std::size(kLitterSizes) % 8 == 0) {
        left.push_back(object);
      } else {
        bad += check_and_free(object.p, object.id, size(object.id));
      }
    }
    EXPECT_EQ(bad, 0u);
  }).join();
  return left;
}

// Two threads allocate on what others left, while two more free what these still have there.
TEST_F(TakeOver, FromThreadsThatEnded) {
  constexpr unsigned kObjects = 4'000;
  for (uint64_t wave = 1; wave <= scaled(20); ++wave) {
    // At the same time, so that most have a heap of their own.
    std::vector<std::vector<Litter>> of_thread(4);
    on_threads(4, [&](unsigned i) { of_thread[i] = littered(wave * 4 + i, kObjects); });
    on_threads(4, [&](unsigned i) {
      unsigned bad = 0;
      if (i < 2) {
        for (const unsigned other : {i, i + 2}) {
          for (const Litter& object : of_thread[other]) {
            bad += check_and_free(object.p, object.id, size(object.id));
          }
        }
      } else {
        std::vector<Litter> own;
        for (uint64_t n = 0; n < kObjects; ++n) {
          const uint64_t id = (wave * 8 + i) << 40 | n;
          own.push_back({make(id, size(id)), id});
        }
        for (const Litter& object : own) {
          bad += check_and_free(object.p, object.id, size(object.id));
        }
      }
      EXPECT_EQ(bad, 0u);
    });
  }
  EXPECT_GT(taken_over(), 0u);
  expect_all_home(std::size(kLitterSizes));
}

// One purge brings home what waits in a batch for a slab that is the thread's own by now.
TEST_F(TakeOver, OnePurgeIsEnough) {
  constexpr size_t kSize = 1'000;
  std::vector<void*> left;
  void* mine = make(0, kSize);  // so that this thread has a heap, and the other one has another
  std::thread([&] {
    std::vector<void*> all;
    for (uint64_t id = 0; id < 4 * 64; ++id) all.push_back(make(id, kSize));
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 4 == 0) {
        left.push_back(all[i]);
      } else {
        EXPECT_EQ(check_and_free(all[i], i, kSize), 0u);
      }
    }
  }).join();
  // Two objects of each slab into a batch.
  unsigned bad = 0;
  for (size_t i = 0; i < left.size(); i += 8) {
    bad += check_and_free(std::exchange(left[i], nullptr), i * 4, kSize);
  }
  std::vector<void*> own;
  while (taken_over() == 0 && own.size() < 10'000) own.push_back(make(own.size(), kSize));
  if (!guarded()) {
    EXPECT_GT(taken_over(), 0u);
  }
  for (size_t i = 0; i < own.size(); ++i) bad += check_and_free(own[i], i, kSize);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] != nullptr) bad += check_and_free(left[i], i * 4, kSize);
  }
  bad += check_and_free(mine, 0, kSize);
  EXPECT_EQ(bad, 0u);
  loft_purge(nullptr);
  const loft_stats_t s = stats();
  EXPECT_EQ(s.allocated_bytes, 0u);
  EXPECT_EQ(s.slab_bytes, before_.slab_bytes);
}

unsigned check(void* p) { return p == nullptr ? 0u : check_and_free(p, id_of(p), size_of(p)); }

// Threads hand each other objects, of the sizes whose number has the bits of `sizes`, and let every
// other one of their own go after each round: which of them needs memory, and who has too much of
// what, changes all the time.
void hand_each_other(uint64_t rounds, uint64_t sizes, unsigned sleepers) {
  constexpr unsigned kThreads = 8;
  constexpr unsigned kPlaces = 512;
  static std::atomic<void*> places[kPlaces] = {};
  std::atomic<unsigned> bad{0};
  std::atomic<bool> done{false};
  Rests rests(kThreads, sleepers);
  std::thread reader([&] {
    // What a slab took along is counted at one heap up and at another one down.
    constexpr uint64_t kMuch = uint64_t{1} << 40;
    while (!done) {
      const loft_stats_t s = stats();
      EXPECT_LT(s.allocated_bytes, kMuch);
      EXPECT_LT(s.live_objects, kMuch);
      EXPECT_LT(s.slab_bytes, kMuch);
      EXPECT_LT(s.free_in_slabs_bytes, kMuch);
      sched_yield();
    }
  });
  on_threads(kThreads, [&](unsigned thread) {
    uint64_t random = seed_for(thread);
    unsigned mine_bad = 0;
    std::vector<void*> own(600, nullptr);
    for (uint64_t round = 0; round < rounds; ++round) {
      // Each round another size, so that what was left of the size before lies about.
      for (unsigned i = 0; i < 3'000; ++i) {
        advance(random);
        const uint64_t which = random >> 62 == 0 ? random >> 50 & 3 : round & 3;
        const uint64_t id = (round + thread) << 2 | which | sizes;
        void* fresh = make(id, size(id));
        void*& kept = own[random >> 20 & 511];
        mine_bad += check(places[random >> 33 & (kPlaces - 1)].exchange(kept));
        kept = fresh;
      }
      for (size_t i = round % 2; i < own.size(); i += 2)
        mine_bad += check(std::exchange(own[i], nullptr));
      rests.rest(sleepers == 0 ? 0 : 2);
    }
    rests.leave();
    for (void* p : own) mine_bad += check(p);
    bad += mine_bad;
  });
  done = true;
  reader.join();
  for (std::atomic<void*>& place : places) bad += check(place.exchange(nullptr));
  EXPECT_EQ(bad, 0u);
}

TEST_F(TakeOver, FromThreadsThatSleep) {
  hand_each_other(scaled(40), 0, 4);
  RecordProperty("slabs_taken_over", static_cast<int>(taken_over()));
  expect_all_home(std::size(kLitterSizes));
}

// The two larger sizes, of whose slabs threads at work have too many now and then.
TEST_F(TakeOver, FromThreadsAtWork) {
  hand_each_other(scaled(80), 2, 0);
  RecordProperty("slabs_taken_over", static_cast<int>(taken_over()));
  expect_all_home(std::size(kLitterSizes));
}

// Medium objects of threads that take turns: whoever comes next takes the runs of those that wait,
// with what these keep, have handed on, and lengthen later.
TEST_F(TakeOver, RunsOfThreadsThatTakeTurns) {
  constexpr unsigned kThreads = 6;
  constexpr unsigned kPlaces = 64;
  constexpr size_t kOwn = 256;
  constexpr unsigned kRounds = scaled(60);
  static std::atomic<void*> places[kPlaces] = {};
  std::atomic<unsigned> bad{0};
  Rests rests(kThreads, 4);
  on_threads(kThreads, [&](unsigned thread) {
    uint64_t random = seed_for(thread);
    uint64_t id = uint64_t{thread} << 32;
    unsigned mine_bad = 0;
    std::vector<void*> own(kOwn, nullptr);
    for (uint64_t round = 0; round < kRounds; ++round) {
      advance(random);
      // Ever more, so that the runs that there are do not suffice.
      const size_t most = 4 + kOwn * round / kRounds;
      const size_t objects = std::min(kOwn, most / 2 + (random >> 40) % most);
      for (size_t i = 0; i < objects; ++i) {
        advance(random);
        if (void*& kept = own[i]; kept != nullptr && random >> 62 == 0) {
          const uint64_t name = id_of(kept);
          const size_t before = size_of(kept);
          const size_t longer = before + (random >> 32 & 0xffff);
          kept = loft_realloc(kept, longer);
          mine_bad += intact(kept, name, before, before) ? 0 : 1;
          stamp(kept, name, longer);
          continue;
        }
        // Small ones in between: who needs a slab looks who is idle.
        if (i % 2 == 0) own.push_back(make(++id, 8'000 + 64 * i));
        void* fresh = make(++id, 33'000 + (random >> 40) % 200'000);
        mine_bad += check(std::exchange(own[i], fresh));
        if (random >> 59 == 1) own[i] = places[random >> 20 & (kPlaces - 1)].exchange(fresh);
      }
      for (size_t i = 0; i < own.size(); ++i) {
        if (i % 8 != round % 8) mine_bad += check(std::exchange(own[i], nullptr));
      }
      for (; own.size() > kOwn; own.pop_back()) mine_bad += check(own.back());
      rests.rest(2);
    }
    rests.leave();
    for (void* p : own) mine_bad += check(p);
    bad += mine_bad;
  });
  for (std::atomic<void*>& place : places) bad += check(place.exchange(nullptr));
  EXPECT_EQ(bad, 0u);
  expect_all_home(0);
}

// Threads that replace each other's small objects, and are not equally far at any time.
TEST_F(TakeOver, SmallOnesThatOthersFree) {
  constexpr unsigned kPlaces = 40'000;
  static std::atomic<void*> places[kPlaces] = {};
  std::atomic<unsigned> bad{0};
  on_threads(4, [&](unsigned thread) {
    uint64_t random = seed_for(thread);
    for (uint64_t n = 0; n < scaled(200'000); ++n) {
      advance(random);
      // The first two sizes.
      const uint64_t id = (n * 4 + thread) << 2 | (random >> 60 & 1);
      bad += check(places[(random >> 30) % kPlaces].exchange(make(id, size(id))));
    }
  });
  RecordProperty("slabs_taken_over", static_cast<int>(taken_over()));
  for (std::atomic<void*>& place : places) bad += check(place.exchange(nullptr));
  EXPECT_EQ(bad, 0u);
  expect_all_home(std::size(kLitterSizes));
}

}  // namespace
}  // namespace storm
