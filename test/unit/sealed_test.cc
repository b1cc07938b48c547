// Static data that is read-only but for its own function.
#include <gtest/gtest.h>

#include <cstdint>

#include "base/sealed.h"

namespace loft {
namespace {

struct Words {
  uint64_t first;
  const int* second;
};
constinit const int one = 1;
LOFT_SEALED constinit Words words = {0, &one};
LOFT_SEALED constinit Words unwritten = {0, &one};
// As the compiler knows it: anything may have been written.
Words& known(Words* p) {
  asm volatile("" : "+r"(p));
  return *p;
}

TEST(Sealed, WhatIsWrittenStays) {
  EXPECT_EQ(known(&unwritten).second, &one);
  for (uint64_t i = 1; i < 4; ++i) {
    const Words wanted = {i, nullptr};
    ASSERT_TRUE(write_sealed(&words, &wanted, sizeof wanted));
    EXPECT_EQ(known(&words).first, i);
    EXPECT_EQ(known(&words).second, nullptr);
  }
}

TEST(SealedDeathTest, NobodyElseWrites) {
  EXPECT_DEATH(known(&unwritten).first = 7, "");
  const Words wanted = {5, nullptr};
  ASSERT_TRUE(write_sealed(&words, &wanted, sizeof wanted));
  EXPECT_DEATH(known(&words).first = 7, "");
  EXPECT_EQ(known(&words).first, 5u);
}

TEST(Sealed, OrdinaryDataIsWrittenToo) {
  static uint64_t word = 1;
  const uint64_t two = 2;
  ASSERT_TRUE(write_sealed(&word, &two, sizeof two));
  EXPECT_EQ(word, 2u);
  word = 3;
  EXPECT_EQ(word, 3u);
}

}  // namespace
}  // namespace loft
