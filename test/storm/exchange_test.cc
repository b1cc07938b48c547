// Objects that one thread allocates and another one frees.
#include <gtest/gtest.h>

#include "storm/support.h"

namespace storm {
namespace {

constexpr size_t kMixed[] = {16, 24, 32, 64, 80, 128, 200, 256, 512, 1000, 16, 48};

size_t mixed_size(uint64_t id) { return kMixed[id % std::size(kMixed)]; }

class Exchange : public Storm {};

// One producer and one consumer to each street. Returns how many objects were not what they were.
template <class Size>
unsigned stream(unsigned pairs, unsigned objects, Size size) {
  std::vector<Street> streets;
  for (unsigned i = 0; i < pairs; ++i) streets.emplace_back(objects);
  std::atomic<unsigned> bad{0};
  on_threads(2 * pairs, [&](unsigned self) {
    const uint64_t first = uint64_t{self / 2} << 32;
    Street& street = streets[self / 2];
    unsigned faults = 0;
    for (unsigned i = 0; i < objects; ++i) {
      const uint64_t id = first + i;
      if (self % 2 == 0) {
        street.put(i, make(id, size(id)));
      } else {
        faults += check_and_free(street.take(i), id, size(id));
      }
    }
    bad += faults;
  });
  return bad;
}

TEST_F(Exchange, ProducerAndConsumerOfSixteenBytes) {
  EXPECT_EQ(stream(1, scaled(1'000'000), [](uint64_t) { return size_t{16}; }), 0u);
  // Else both may have run on one processor.
  if (threads_own()) {
    EXPECT_GT(stats().batch_objects, 0u);
  }
  expect_all_home(1);
}

TEST_F(Exchange, ProducerAndConsumerOfWholeCacheLines) {
  EXPECT_EQ(stream(1, scaled(1'000'000), [](uint64_t) { return size_t{64}; }), 0u);
  expect_all_home(1);
}

TEST_F(Exchange, FourProducersAndConsumersOfMixedSizes) {
  EXPECT_EQ(stream(4, scaled(200'000), mixed_size), 0u);
  expect_all_home(std::size(kMixed));
}

// The consumer frees in another order than the producer allocated: batches of few objects, for
// many slabs, so that places are contested and messages carry records.
TEST_F(Exchange, ConsumersFreeInAnotherOrder) {
  const unsigned objects = scaled(400'000);
  Street street(objects);
  std::atomic<unsigned> bad{0};
  on_threads(2, [&](unsigned self) {
    if (self == 0) {
      for (unsigned i = 0; i < objects; ++i) street.put(i, make(i, mixed_size(i)));
      return;
    }
    constexpr unsigned kHeld = 20'000;
    std::vector<void*> held;
    uint64_t random = seed_for(1);
    unsigned faults = 0;
    for (unsigned i = 0; i < objects; ++i) {
      held.push_back(street.take(i));
      if (held.size() < kHeld && i + 1 != objects) continue;
      while (held.size() > (i + 1 == objects ? 0 : kHeld / 2)) {
        advance(random);
        std::swap(held[(random >> 33) % held.size()], held.back());
        const uint64_t id = id_of(held.back());
        faults += check_and_free(held.back(), id, mixed_size(id));
        held.pop_back();
      }
    }
    bad += faults;
  });
  EXPECT_EQ(bad, 0u);
  expect_all_home(std::size(kMixed));
}

// Every thread sends an object to every other one in each round, and frees what it gets as it
// comes.
TEST_F(Exchange, AllToAll) {
  constexpr unsigned kThreads = 8;
  const unsigned rounds = scaled(12'000);
  std::vector<Street> streets;
  for (unsigned i = 0; i < kThreads * kThreads; ++i) streets.emplace_back(rounds);
  const auto id = [&](unsigned from, unsigned to, unsigned round) {
    return (uint64_t{from} * kThreads + to) * rounds + round;
  };
  std::atomic<unsigned> bad{0};
  std::atomic<uint64_t> freed{0};
  on_threads(kThreads, [&](unsigned self) {
    unsigned next[kThreads] = {};
    unsigned faults = 0;
    const auto receive = [&](unsigned from, void* p) {
      const uint64_t expected = id(from, self, next[from]++);
      faults += check_and_free(p, expected, mixed_size(expected));
    };
    for (unsigned round = 0; round < rounds; ++round) {
      for (unsigned to = 0; to < kThreads; ++to) {
        const uint64_t mine = id(self, to, round);
        streets[self * kThreads + to].put(round, make(mine, mixed_size(mine)));
      }
      for (unsigned from = 0; from < kThreads; ++from) {
        if (next[from] == rounds) continue;
        void* p = streets[from * kThreads + self].try_take(next[from]);
        if (p != nullptr) receive(from, p);
      }
    }
    for (unsigned from = 0; from < kThreads; ++from) {
      while (next[from] != rounds) receive(from, streets[from * kThreads + self].take(next[from]));
      freed += next[from];
    }
    bad += faults;
  });
  EXPECT_EQ(bad, 0u);
  EXPECT_EQ(freed, uint64_t{kThreads} * kThreads * rounds);
  expect_all_home(std::size(kMixed));
}

// Objects on the table are taken by whoever comes, checked, replaced: the exchange has no
// direction, and the same thread sees its own objects again. Stamps count: an object taken twice
// would be checked by two threads under one id.
TEST_F(Exchange, EverybodyTakesFromEverybody) {
  constexpr unsigned kThreads = 6;
  constexpr unsigned kPlaces = 512;
  const unsigned rounds = scaled(150'000);
  const size_t ids = size_t{kThreads} * rounds;
  std::unique_ptr<std::atomic<void*>[]> table(new std::atomic<void*>[kPlaces]());
  std::unique_ptr<std::atomic<uint8_t>[]> seen(new std::atomic<uint8_t>[ids]());
  std::atomic<unsigned> bad{0};
  const auto take_out = [&](void* p) -> unsigned {
    if (p == nullptr) return 0;
    const uint64_t id = id_of(p);
    if (id >= ids || seen[id].fetch_add(1, std::memory_order_relaxed) != 0) return 1;
    return check_and_free(p, id, mixed_size(id));
  };
  on_threads(kThreads, [&](unsigned self) {
    uint64_t random = seed_for(self);
    unsigned faults = 0;
    for (unsigned i = 0; i < rounds; ++i) {
      const uint64_t id = uint64_t{self} * rounds + i;
      void* mine = make(id, mixed_size(id));
      advance(random);
      std::atomic<void*>& place = table[(random >> 33) % kPlaces];
      faults += take_out(place.exchange(mine, std::memory_order_acq_rel));
    }
    bad += faults;
  });
  for (unsigned i = 0; i < kPlaces; ++i) bad += take_out(table[i].load());
  EXPECT_EQ(bad, 0u);
  unsigned lost = 0;
  for (size_t id = 0; id < ids; ++id) lost += seen[id] != 1 ? 1u : 0u;
  EXPECT_EQ(lost, 0u);
  expect_all_home(std::size(kMixed));
}

// The receiver resizes what it got, up and down, through small, medium and large, and sends it on;
// the third thread frees it.
TEST_F(Exchange, ResizedByAnotherThreadFreedByAThird) {
  constexpr size_t kSizes[] = {16, 100, 700, 5'000, 30'000, 40'000, 300'000, 1'500'000};
  const unsigned objects = scaled(4'000);
  const auto size = [&](unsigned i) { return kSizes[i % std::size(kSizes)]; };
  const auto resized = [&](unsigned i) { return kSizes[(i * 5 + i / 8) % std::size(kSizes)]; };
  Street there(objects);
  Street on(objects);
  std::atomic<unsigned> bad{0};
  on_threads(3, [&](unsigned self) {
    unsigned faults = 0;
    for (unsigned i = 0; i < objects; ++i) {
      if (self == 0) {
        there.put(i, make(i, size(i)));
      } else if (self == 1) {
        void* p = loft_realloc(there.take(i), resized(i));
        if (!intact(p, i, size(i), resized(i))) ++faults;
        stamp(p, i, resized(i));
        on.put(i, p);
      } else {
        faults += check_and_free(on.take(i), i, resized(i));
      }
    }
    bad += faults;
  });
  EXPECT_EQ(bad, 0u);
  expect_all_home(std::size(kSizes), 1 << 20);
}

// One or two threads fill buffers of all lengths, as many only drain them, and another one may call
// everything home all the time. The ways between them are short, so that few are alive and all are
// used again: of those of one pair that are alive no two take as many granules. One pair stays
// where it is, as under owner=cpu the caches are the processors'.
void fill_and_drain(unsigned pairs, unsigned objects, bool call_home) {
  constexpr unsigned kWays = 4;
  const auto size = [](uint64_t id) { return 33'000 + id * 7 % 60 * 16'000; };
  std::atomic<void*> ways[2][kWays] = {};
  std::atomic<unsigned> bad{0};
  std::atomic<unsigned> draining{pairs};
  const std::vector<int> all = processors();
  on_threads(2 * pairs + 1, [&](unsigned self) {
    if (pairs == 1) move_to(0, all[self % all.size()]);
    if (self == 2 * pairs) {
      while (call_home && draining != 0) loft_purge(nullptr);
      return;
    }
    unsigned faults = 0;
    for (unsigned i = 0; i < objects; ++i) {
      const uint64_t id = uint64_t{self / 2} << 32 | i;
      std::atomic<void*>& way = ways[self / 2][i % kWays];
      if (self % 2 == 0) {
        void* p = make(id, size(id));
        while (way.load(std::memory_order_relaxed) != nullptr) sched_yield();
        way.store(p, std::memory_order_release);
      } else {
        void* p = nullptr;
        while ((p = way.exchange(nullptr, std::memory_order_acquire)) == nullptr) sched_yield();
        faults += check_and_free(p, id, size(id));
      }
    }
    bad += faults;
    if (self % 2 == 1) --draining;
  });
  EXPECT_EQ(bad, 0u);
}

TEST_F(Exchange, BuffersThatSomeFillAndOthersDrain) {
  const uint64_t spans = stats().spans_acquired;
  const unsigned objects = scaled(20'000);
  fill_and_drain(1, objects, false);
  EXPECT_LT(stats().spans_acquired - spans, objects / 2)
      << "half of the buffers and more were passed on";
  fill_and_drain(2, objects / 2, false);
  expect_all_home(1, 1 << 20);
}

TEST_F(Exchange, BuffersThatAreCalledHomeMeanwhile) {
  fill_and_drain(2, scaled(10'000), true);
  expect_all_home(1, 1 << 20);
}

// Zeroed and aligned objects are what they should be although others have written and freed them.
TEST_F(Exchange, ZeroedAndAlignedObjectsOfReusedMemory) {
  const unsigned objects = scaled(30'000);
  constexpr size_t kSizes[] = {16, 64, 192, 1024, 6'000, 70'000};
  constexpr unsigned kThreads = 3;
  std::vector<Street> streets;
  for (unsigned i = 0; i < kThreads; ++i) streets.emplace_back(objects);
  std::atomic<unsigned> bad{0};
  on_threads(kThreads, [&](unsigned self) {
    unsigned faults = 0;
    for (unsigned i = 0; i < objects; ++i) {
      const size_t size = kSizes[i % std::size(kSizes)];
      const size_t alignment = size_t{16} << i % 9;
      char* p = nullptr;
      if (i % 2 == 0) {
        p = static_cast<char*>(loft_calloc(1, size));
        for (size_t at = 0; at < size; at += size <= 1024 ? 1 : 97) faults += p[at] != 0;
      } else {
        p = static_cast<char*>(loft_aligned_alloc(alignment, size));
        faults += reinterpret_cast<uintptr_t>(p) % alignment != 0;
      }
      stamp(p, i, size);
      streets[self].put(i, p);
      void* got = streets[(self + 1) % kThreads].take(i);
      faults += check_and_free(got, i, size);
    }
    bad += faults;
  });
  EXPECT_EQ(bad, 0u);
  expect_all_home(40, 1 << 20);
}

}  // namespace
}  // namespace storm
