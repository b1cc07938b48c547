// The parts of hardened=full that need no process of their own: tags, places, the quarantine, and
// objects of no bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "hardened/before.h"
#include "hardened/cell.h"
#include "hardened/quarantine.h"
#include "hardened/secrets.h"
#include "hardened/tag.h"
#include "space/span.h"

namespace loft::hardened {
namespace {

class Hard : public testing::Test {
 protected:
  static void SetUpTestSuite() { make_secrets(); }
};

TEST_F(Hard, ATagTellsWhatWasNoted) {
  for (const uint32_t slack : {0u, 1u, 8u, 8191u, 65535u}) {
    for (const Maker maker : {Maker::kMalloc, Maker::kNew, Maker::kNewArray, Maker::kNewAligned,
                              Maker::kNewArrayAligned}) {
      for (const bool sampled : {false, true}) {
        const uintptr_t p = 0x123456789000 + slack * 16;
        const uint64_t tag = tag_of(p, {slack, maker, sampled});
        Marks marks{};
        ASSERT_TRUE(read_tag(p, tag, &marks));
        EXPECT_EQ(marks.slack, slack);
        EXPECT_EQ(marks.maker, maker);
        EXPECT_EQ(marks.sampled, sampled);
      }
    }
  }
}

TEST_F(Hard, ATagIsOfItsAddressAndItsMarksAlone) {
  const uintptr_t p = 0x123456789000;
  const uint64_t tag = tag_of(p, {5, Maker::kNew, false});
  Marks marks{};
  EXPECT_FALSE(read_tag(p + 16, tag, &marks));
  EXPECT_FALSE(read_tag(p, free_tag_of(p), &marks));
  EXPECT_FALSE(read_tag(p, 0, &marks));
  // None of the tags that differ in one bit.
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_FALSE(read_tag(p, tag ^ uint64_t{1} << bit, &marks)) << bit;
  }
}

// A place of the test's own, with one before it.
struct Locations {
  alignas(16) unsigned char before[64] = {};
  alignas(16) unsigned char bytes[64] = {};
};

TEST_F(Hard, AFenceIsEachByteNearAnObjectsEnd) {
  for (size_t asked = 33; asked <= 64 - kTagBytes; ++asked) {
    Locations places;
    hand_out(places.bytes, 64, asked, Maker::kMalloc, false);
    Marks marks{};
    ASSERT_TRUE(is_object(places.bytes, 64, &marks));
    const size_t slack = 64 - kTagBytes - asked;
    ASSERT_EQ(marks.slack, slack);
    unsigned char* const end = places.bytes + 64 - kTagBytes;
    const uint64_t fence = fence_of(reinterpret_cast<uintptr_t>(places.bytes));
    EXPECT_TRUE(is_fence_whole(end, slack, fence));
    for (size_t at = asked; at < 64 - kTagBytes; ++at) {
      // Between its first and its last eight bytes, a fence is not looked at.
      if (at >= asked + 8 && at + 8 < 64 - kTagBytes) continue;
      const unsigned char was = places.bytes[at];
      EXPECT_NE(was, 0);
      places.bytes[at] = 0;
      EXPECT_FALSE(is_fence_whole(end, slack, fence)) << asked << " " << at;
      places.bytes[at] = was;
    }
  }
}

TEST_F(Hard, APlaceReadsAsZeroWhenItIsTakenBack) {
  Locations places;
  hand_out(places.bytes, 64, 40, Maker::kMalloc, false);
  std::memset(places.bytes, 0xaa, 40);
  Marks marks{};
  ASSERT_TRUE(is_object(places.bytes, 64, &marks));
  take_back("free", places.bytes, 64, marks, false);
  EXPECT_TRUE(is_zero(places.bytes, 64 - kTagBytes));
  EXPECT_FALSE(is_object(places.bytes, 64, &marks));
  // And can be handed out again.
  hand_out(places.bytes, 64, 50, Maker::kNew, true);
  ASSERT_TRUE(is_object(places.bytes, 64, &marks));
  EXPECT_EQ(marks.maker, Maker::kNew);
  EXPECT_TRUE(marks.sampled);
}

TEST_F(Hard, AResizedObjectHasZerosWhereItGrewAndAWholeFence) {
  for (const size_t from : {10, 30, 47, 56}) {
    for (const size_t to : {9, 31, 48, 56}) {
      Locations places;
      hand_out(places.bytes, 64, from, Maker::kMalloc, false);
      std::memset(places.bytes, 0xaa, from);
      Marks marks{};
      ASSERT_TRUE(is_object(places.bytes, 64, &marks));
      resize("realloc", places.bytes, 64, to, marks);
      ASSERT_TRUE(is_object(places.bytes, 64, &marks));
      EXPECT_EQ(marks.slack, 64 - kTagBytes - to);
      for (size_t i = 0; i < to; ++i) EXPECT_EQ(places.bytes[i], i < from ? 0xaa : 0) << from << to;
      take_back("free", places.bytes, 64, marks, false);
      EXPECT_TRUE(is_zero(places.bytes, 64 - kTagBytes));
    }
  }
}

TEST_F(Hard, TheQuarantineKeepsAsManyAndGivesThemBackOnce) {
  ASSERT_TRUE(span::initialise());
  ThreadCache thread;
  Quarantine* const quarantine = quarantine_of(&thread);
  ASSERT_NE(quarantine, nullptr);
  const SizeClass c = class_of(64);
  const unsigned length = quarantine_length(c);
  std::set<void*> out;
  for (uintptr_t i = 1; i <= 10'000; ++i) {
    void* const in = reinterpret_cast<void*>(i * 64);
    void* const p = exchange(quarantine, quarantine->of[c], in, key_of(in));
    EXPECT_NE(p, in);
    if (p != nullptr) {
      EXPECT_TRUE(out.insert(p).second);
    }
    EXPECT_EQ(out.size() + held(&thread, c), i);
    EXPECT_LE(held(&thread, c), 2 * length);
  }
  EXPECT_EQ(held(&thread, c), 2 * length);
}

TEST_F(Hard, ObjectsOfNoBytesHaveAddressesOfTheirOwn) {
  std::set<void*> seen;
  for (int i = 0; i < 1000; ++i) {
    void* const p = make_nothing();
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(is_nothing(p));
    EXPECT_TRUE(seen.insert(p).second);
    check_nothing("free", p);
    if (i % 2 == 0) free_nothing("free", p);
  }
  int local = 0;
  EXPECT_FALSE(is_nothing(&local));
}

using HardDeathTest = Hard;

TEST_F(HardDeathTest, AnObjectOfNoBytesIsFreedOnce) {
  void* const p = make_nothing();
  free_nothing("free", p);
  EXPECT_DEATH(free_nothing("free", p), "where no object of size 0 is");
  EXPECT_DEATH(check_nothing("realloc", static_cast<char*>(p) + 1), "realloc of ");
}

TEST_F(Hard, WhatWasThereBeforeIsForgottenOnce) {
  ASSERT_TRUE(span::initialise());
  int object = 0;
  int other = 0;
  ASSERT_TRUE(note_before(&object));
  EXPECT_TRUE(is_from_before(&object));
  EXPECT_FALSE(is_from_before(&other));
  EXPECT_TRUE(forget_before(&object));
  EXPECT_FALSE(forget_before(&object));
}

TEST_F(Hard, WhatWasThereBeforeMayEndWithAnything) {
  ASSERT_TRUE(span::initialise());
  Locations places;
  std::memset(places.before, 0xa5, sizeof places.before);
  ASSERT_TRUE(note_before(places.before));
  const Marks marks = {6, Maker::kMalloc, false};
  hand_out(places.bytes, sizeof places.bytes, 50, Maker::kMalloc, false);
  take_back("free", places.bytes, sizeof places.bytes, marks, false);
  EXPECT_TRUE(forget_before(places.before));
  hand_out(places.bytes, sizeof places.bytes, 50, Maker::kMalloc, false);
  EXPECT_DEATH(take_back("free", places.bytes, sizeof places.bytes, marks, false), "");
}

TEST_F(Hard, NumbersBelowAnEnd) {
  uint64_t state = 1;
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts[below(&state, 7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 600);  // six standard deviations
}

}  // namespace
}  // namespace loft::hardened
