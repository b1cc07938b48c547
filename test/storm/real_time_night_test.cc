// By the system's clock, with nobody's help: all other tests move the clock themselves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "storm/support.h"

namespace storm {
namespace {

TEST(RealTime, TheBackgroundThreadGivesMemoryBack) {
  const loft::test::RealTime real_time;
  loft::background::enable();
  ASSERT_EQ(loft_option_set("background", "on"), 0);
  ASSERT_EQ(loft_option_set("decay_ms", "100"), 0);
  constexpr size_t kSize = size_t{32} << 20;
  void* const p = loft_malloc(kSize);
  std::memset(p, 1, kSize);
  loft_free(p);
  loft_free(loft_malloc(100'000));
  while (stats().dirty_bytes != 0) usleep(1000);
  EXPECT_LT(stats().resident_bytes, kSize / 2);
  // And it sleeps when nothing is left to do.
  while (loft::background::state.load(std::memory_order_relaxed) != loft::background::kAsleep) {
    usleep(1000);
  }
}

}  // namespace
}  // namespace storm
