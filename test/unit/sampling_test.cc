// Second bins, which threads allocate from while a profile is taken.
#include <gtest/gtest.h>

#include <vector>

#include "cache/arrays.h"
#include "loft/loft.h"
#include "runtime/lifecycle.h"
#include "sampling/meter.h"
#include "unit/support.h"

namespace loft {
namespace {

TEST(Sampling, WhatAReviewPutsBackIsNotRefilledOver) {
  constexpr size_t kSize = 1536;
  constexpr SizeClass kClass = class_of(kSize);
  std::vector<void*> taken;
  const auto take = [&] {
    taken.push_back(loft_malloc(kSize));
    ASSERT_NE(taken.back(), nullptr);
  };
  ASSERT_EQ(loft_option_set("profile", "on"), 0);
  ThreadCache* const thread = lifecycle::attach();
  ASSERT_NE(thread, nullptr);
  while (sampling::held(thread, kClass) == 0) take();
  ASSERT_EQ(loft_option_set("profile", "off"), 0);
  while (*thread->bins[kClass].top() != nullptr) take();
  const unsigned held = sampling::held(thread, kClass);
  ASSERT_NE(held, 0u);
  // The next refill is one that reviews the first class, and with it all second bins.
  thread->refills = 63;
  thread->review_next = 0;
  take();
  EXPECT_EQ(sampling::held(thread, kClass), 0u);
  EXPECT_EQ(bins::count(thread, kClass), held - 1) << "and one of them was served";
  for (void* const p : taken) loft_free(p);
}

}  // namespace
}  // namespace loft
