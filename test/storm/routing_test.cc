// More heaps than an outbox has buckets: messages are forwarded, and all of them arrive.
#include <gtest/gtest.h>

#include <barrier>

#include "runtime/youth.h"
#include "storm/support.h"

namespace storm {
namespace {

class Routing : public Storm {
 protected:
  // Then what was on its way to them makes a detour.
  bool slabs_changed_hands(const loft_stats_t& now) const {
    return now.slabs_taken_over != before_.slabs_taken_over;
  }
};

// Every thread holds objects for every other; then all free what the others hold for them.
void exchange(unsigned threads, unsigned objects_each) {
  const auto size = [](uint64_t id) { return size_t{16} << id % 4; };
  std::vector<Street> streets;
  for (unsigned i = 0; i < threads; ++i) streets.emplace_back(size_t{threads} * objects_each);
  std::barrier all_hold(threads);
  std::atomic<unsigned> bad{0};
  on_threads(threads, [&](unsigned self) {
    loft::youth::end();  // each has a heap of its own
    const uint64_t first = uint64_t{self} * threads * objects_each;
    for (unsigned i = 0; i < threads * objects_each; ++i) {
      streets[self].put(i, make(first + i, size(first + i)));
    }
    all_hold.arrive_and_wait();
    unsigned faults = 0;
    for (unsigned round = 0; round < objects_each; ++round) {
      for (unsigned other = 0; other < threads; ++other) {
        const unsigned i = self * objects_each + round;
        const uint64_t id = uint64_t{other} * threads * objects_each + i;
        faults += check_and_free(streets[other].take(i), id, size(id));
      }
    }
    bad += faults;
  });
  EXPECT_EQ(bad, 0u);
}

TEST_F(Routing, SixtyHeapsNeedNoForwarding) {
  exchange(60, scaled(30));
  const loft_stats_t s = stats_at_rest();
  if (s.heaps <= 64 && !slabs_changed_hands(s)) {
    EXPECT_EQ(s.forwards, before_.forwards);
  }
  expect_all_home(4);
}

TEST_F(Routing, AHundredAndFiftyHeaps) {
  exchange(150, scaled(12));
  const loft_stats_t s = stats_at_rest();
  EXPECT_GE(s.heaps, 150u);
  EXPECT_GT(s.forwards, before_.forwards);
  // Up to 4096 heaps, two digits tell any two apart: a message is forwarded once at most.
  if (!slabs_changed_hands(s)) {
    EXPECT_LE(s.forwards - before_.forwards, s.messages_received - before_.messages_received);
  }
  expect_all_home(4);
}

// Rounds over 100 heaps that change hands between them.
TEST_F(Routing, HeapsThatAreAdoptedAndDrained) {
  for (unsigned round = 0; round < scaled(6); ++round) exchange(100, 2);
  EXPECT_GT(stats().adoptions, before_.adoptions);
  expect_all_home(4);
}

}  // namespace
}  // namespace storm
