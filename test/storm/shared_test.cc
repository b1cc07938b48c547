// The policy `shared`: one heap owns every slab, and threads come and go before it.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>

#include "base/options.h"
#include "heap/registry.h"
#include "storm/support.h"

// The link-time symbol: the tests of this file are this policy's.
const char* loft_options = "owner=shared";

namespace storm {
namespace {

class Shared : public Storm {
 protected:
  void SetUp() override { ASSERT_EQ(loft::get(loft::options.owner), loft::kOwnerShared); }
};

constexpr size_t kSizes[] = {16, 48, 64, 320, 2'000, 30'000};

// What one thread frees for another goes into its own cache: nothing travels, and nobody abandons
// the heap that the others use.
TEST_F(Shared, OneHeapOwnsEverything) {
  constexpr unsigned kThreads = 6;
  const unsigned rounds = scaled(40);
  Street street(kThreads * 400);
  std::atomic<unsigned> bad{0};
  for (unsigned round = 0; round < rounds; ++round) {
    std::barrier meet(kThreads);
    on_threads(kThreads, [&](unsigned self) {
      for (unsigned i = self * 400; i < (self + 1) * 400; ++i)
        street.put(i, make(i, kSizes[i % 6]));
      meet.arrive_and_wait();
      const unsigned other = (self + 1) % kThreads;
      unsigned faults = 0;
      for (unsigned i = other * 400; i < (other + 1) * 400; ++i) {
        faults += check_and_free(street.take(i), i, kSizes[i % 6]);
      }
      bad += faults;
    });
  }
  EXPECT_EQ(bad, 0u);
  const loft_stats_t s = stats_at_rest();
  EXPECT_EQ(s.heaps, 1u);
  EXPECT_EQ(s.heaps_parked, 0u);
  EXPECT_EQ(s.batch_objects, 0u);
  EXPECT_EQ(loft::registry::at(1), loft::registry::common_heap());
  expect_all_home(std::size(kSizes), 512 << 10);
}

}  // namespace
}  // namespace storm
