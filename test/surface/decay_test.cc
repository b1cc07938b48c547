// Memory that a program has freed goes back to the system as time passes: how much of it is there
// at each moment, by a clock that the test moves. The calls of the program do it; or, where it asks
// for one, the background thread, as much and at the same moments.
#include <gtest/gtest.h>
#include <string.h>

#include <cstdint>
#include <vector>

#include "background.h"
#include "loft/loft.h"
#include "space/span.h"
#include "surface/heap_stats.h"
#include "surface/support.h"

namespace {

using loft::test::pass_ms;
using surface::stats;

constexpr uint64_t kTickMs = 100;  // a fifth of decay_ms

class Decay : public testing::TestWithParam<const char*> {
 protected:
  // A heap that is large enough for ticks, and at rest since the last one.
  void SetUp() override {
    ASSERT_EQ(loft_option_set("background", GetParam()), 0);
    void* const much = malloc(surface::opaque(size_t{32} << 20));
    loft::background::look();
    free(much);
    pass_ms(2000);
    loft_purge(nullptr);
    const uint32_t ticks = loft::span::ticks();
    while (loft::span::ticks() == ticks) {
      loft::background::look();  // wakes the thread, which has found nothing to do
      pass_ms(10);
    }
  }
  void TearDown() override {
    ASSERT_EQ(loft_option_set("decay_ms", "500"), 0);
    ASSERT_EQ(loft_option_set("background", "off"), 0);
    pass_ms(2000);
  }
};

class Spans {
 public:
  Spans() {
    for (void*& p : objects_) memset(p = malloc(kSize), 1, kSize);
    for (size_t i = kStay; i < kObjects; ++i) free(objects_[i]);
  }
  ~Spans() {
    for (size_t i = 0; i < kStay; ++i) free(objects_[i]);
  }
  static constexpr size_t kSize = size_t{5} << 20;
  static constexpr size_t kObjects = 16;
  static constexpr size_t kStay = 4;
  static constexpr size_t kFreed = (kObjects - kStay) * kSize;

 private:
  void* objects_[kObjects];
};

// Beside memory in use, much of what is free goes soon: beyond a quarter of that after one whole
// tick, beyond an eighth after two, and in the end all.
TEST_P(Decay, FreeSpansTickByTick) {
  const Spans spans;
  const loft::span::SpanTotals free = loft::span::totals();
  const size_t used = loft::span::used_bytes() - free.dirty - free.clean;
  EXPECT_EQ(stats().dirty_bytes, Spans::kFreed);
  pass_ms(2 * kTickMs - 10);
  EXPECT_EQ(stats().dirty_bytes, Spans::kFreed) << "there for a moment only";
  pass_ms(10);
  for (unsigned ticks = 2; ticks < loft::span::kDecayTicks + 1; ++ticks) {
    const size_t share = used >> ticks;
    EXPECT_LE(stats().dirty_bytes, share) << ticks;
    EXPECT_GT(stats().dirty_bytes, share / 2) << ticks;
    if (ticks < loft::span::kDecayTicks) pass_ms(kTickMs);
  }
  pass_ms(kTickMs - 10);
  EXPECT_NE(stats().dirty_bytes, 0u);
  pass_ms(10);
  EXPECT_EQ(stats().dirty_bytes, 0u);
}

TEST_P(Decay, NothingGoesWithoutIt) {
  ASSERT_EQ(loft_option_set("decay_ms", "0"), 0);
  pass_ms(2000);  // a thread has made its last look
  const Spans spans;
  pass_ms(10'000);
  EXPECT_EQ(stats().dirty_bytes, Spans::kFreed);
}

// One small object of twenty stays, and none of the slabs becomes empty.
TEST_P(Decay, WhatIsFreeAmongLiveObjects) {
  constexpr size_t kSize = 1000;
  const size_t before = stats().resident_bytes;
  std::vector<void*> objects(60'000);  // less than may stay by its size
  for (void*& p : objects) memset(p = malloc(kSize), 1, kSize);
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 20 != 0) free(objects[i]);
  }
  const size_t full = stats().resident_bytes - before;
  EXPECT_GE(full, objects.size() * kSize);
  pass_ms(loft::span::kDecayTicks * kTickMs - 10);
  EXPECT_GE(stats().resident_bytes - before, objects.size() * kSize);
  pass_ms(10);
  // Each of those that stay holds a page.
  EXPECT_LT(stats().resident_bytes - before, objects.size() / 20 * 4096 * 11 / 10);
  EXPECT_GE(stats().resident_bytes - before, objects.size() / 20 * kSize);
  for (size_t i = 0; i < objects.size(); i += 20) free(objects[i]);
}

INSTANTIATE_TEST_SUITE_P(Background, Decay, testing::Values("off", "on"),
                         [](const auto& background) { return std::string(background.param); });

}  // namespace
