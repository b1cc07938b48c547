// Addresses of slabs that never pass from one size class to another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "slab/apart.h"
#include "slab/geometry.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft::slab {
namespace {

class Apart : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(span::initialise()); }

  static size_t granules_of(SizeClass c) { return geometry(c).granules; }
  static std::vector<uintptr_t> acquire(SizeClass c, unsigned count) {
    std::vector<uintptr_t> bases;
    for (unsigned i = 0; i < count; ++i) {
      const span::Range range = apart::acquire(c, granules_of(c));
      EXPECT_NE(range.base, 0u);
      if (!range.zero) std::memset(test::address(range.base), 0, granules_of(c) << kGranuleLog);
      EXPECT_TRUE(test::reads_zero(test::address(range.base), granules_of(c) << kGranuleLog));
      std::memset(test::address(range.base), 1, granules_of(c) << kGranuleLog);
      bases.push_back(range.base);
    }
    return bases;
  }
  static void release(SizeClass c, const std::vector<uintptr_t>& bases) {
    for (const uintptr_t base : bases) apart::release(c, base, granules_of(c), true);
  }
};

TEST_F(Apart, AddressesStayWithTheirClass) {
  for (const size_t size : {64, 1024, 8192, 32768}) {
    const SizeClass c = class_of(size);
    const std::vector<uintptr_t> bases = acquire(c, 40);
    std::set<uintptr_t> known(bases.begin(), bases.end());
    EXPECT_EQ(known.size(), bases.size());
    for (auto at = known.begin(); std::next(at) != known.end(); ++at) {
      EXPECT_GE(*std::next(at) - *at, granules_of(c) << kGranuleLog);
    }
    release(c, bases);
    const std::vector<uintptr_t> others = acquire(class_of(size * 3 / 4), 40);
    for (const uintptr_t base : others) EXPECT_FALSE(known.contains(base));
    // And come back all, before any others: up to three of them waited already.
    for (const uintptr_t base : acquire(c, 43)) known.insert(base);
    EXPECT_LE(known.size(), bases.size() + 3);
    release(class_of(size * 3 / 4), others);
  }
}

// One in 2^40 of all orders is that of the addresses.
TEST_F(Apart, TheOrderIsDrawnByLot) {
  const SizeClass c = class_of(128);
  std::vector<uintptr_t> bases = acquire(c, 200);
  EXPECT_FALSE(std::is_sorted(bases.begin(), bases.end()));
  release(c, bases);
  const std::vector<uintptr_t> again = acquire(c, 200);
  std::reverse(bases.begin(), bases.end());
  EXPECT_NE(again, bases);
  release(c, again);
}

TEST_F(Apart, WhatWaitsCountsNothing) {
  const SizeClass c = class_of(256);
  const size_t before = span::counted();
  const std::vector<uintptr_t> bases = acquire(c, 9);
  EXPECT_EQ(span::counted(), before + (9 * granules_of(c) << kGranuleLog));
  release(c, bases);
  EXPECT_EQ(span::counted(), before);
}

}  // namespace
}  // namespace loft::slab
