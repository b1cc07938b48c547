#include "room/trial.h"

#include <gtest/gtest.h>

#include <functional>

namespace loft {
namespace {

constexpr unsigned kObjects = 100;
constexpr uint64_t kOwnNs = 1000;

// A program whose events take what `ns_of` says; the clock is the test's.
class TrialTest : public testing::Test {
 protected:
  using Cost = std::function<uint64_t(Trial::Way)>;

  Trial::Way event(const Cost& ns_of) {
    const Trial::Way way = trial_.begin(trial_.wants_time() ? now_ : 0);
    trial_.note(kObjects);
    now_ += ns_of(way);
    return way;
  }
  // How many of the next events went to the room.
  unsigned by_room(unsigned events, const Cost& ns_of) {
    unsigned served = 0;
    for (; events != 0; --events) served += event(ns_of) == Trial::kRoom;
    return served;
  }

  static uint64_t room_is_faster(Trial::Way way) { return way == Trial::kOwn ? kOwnNs : 800; }
  static uint64_t room_is_slower(Trial::Way way) { return way == Trial::kOwn ? kOwnNs : 2000; }

  Trial trial_;
  uint64_t now_ = 1'000'000;
};

constexpr unsigned kTrial = Trial::kEndOfRoom;
constexpr unsigned kOfRoom = Trial::kEndOfRoom - Trial::kEndOfOwn;

TEST_F(TrialTest, ASlowerRoomServesInTrialsOnlyWhichGetRarer) {
  EXPECT_EQ(by_room(Trial::kEndOfOwn, room_is_slower), 0u) << "its own way comes first";
  const unsigned first = by_room(kOfRoom, room_is_slower);
  EXPECT_GT(first, Trial::kUncounted);
  EXPECT_LT(first, kOfRoom) << "until it has taken longer";
  constexpr unsigned kEvents = 200'000;
  const unsigned served = by_room(kEvents, room_is_slower);
  EXPECT_GT(served, 0u) << "things may change";
  EXPECT_LT(served, kEvents / 500);
}

TEST_F(TrialTest, AFasterRoomServesAfterTwoTrials) {
  by_room(kTrial, room_is_faster);
  EXPECT_EQ(by_room(Trial::kShortPause, room_is_faster), 0u) << "once may be noise";
  by_room(kTrial, room_is_faster);
  EXPECT_EQ(by_room(Trial::kLeastPause, room_is_faster), Trial::kLeastPause);
  EXPECT_FALSE(trial_.rests_at(Trial::kOwn));
  // Until it does not any more.
  by_room(2 * (Trial::kLongestPause + kTrial), room_is_slower);
  EXPECT_LT(by_room(Trial::kLeastPause, room_is_slower), kOfRoom + 1);
}

TEST_F(TrialTest, WinningOnceIsNotEnough) {
  by_room(kTrial, room_is_faster);
  by_room(Trial::kShortPause, room_is_faster);
  by_room(kTrial, room_is_slower);
  EXPECT_EQ(by_room(Trial::kLeastPause / 2, room_is_slower), 0u);
  EXPECT_TRUE(trial_.rests_at(Trial::kOwn));
}

TEST_F(TrialTest, AsGoodAsItsOwnIsNotBetter) {
  const auto level = [](Trial::Way) { return kOwnNs; };
  const unsigned served = by_room(100'000, level);
  EXPECT_LT(served, 100'000u / 100);
}

TEST_F(TrialTest, OnePauseOfTheProgramDecidesNothing) {
  for (int trial = 0; trial < 2; ++trial) {
    by_room(Trial::kEndOfOwn + 10, room_is_faster);
    now_ += 1'000'000'000;  // within the room's part
    by_room(kOfRoom - 10, room_is_faster);
    if (trial == 0) by_room(Trial::kShortPause, room_is_faster);
  }
  EXPECT_EQ(by_room(Trial::kLeastPause, room_is_faster), Trial::kLeastPause);
}

// More objects in the same time.
TEST_F(TrialTest, WhatItBringsCounts) {
  for (unsigned i = 0; i < 2 * kTrial + Trial::kShortPause; ++i) {
    const Trial::Way way = trial_.begin(trial_.wants_time() ? now_ : 0);
    trial_.note(way == Trial::kRoom ? 2 * kObjects : kObjects);
    now_ += kOwnNs;
  }
  EXPECT_EQ(by_room(Trial::kLeastPause, room_is_slower), Trial::kLeastPause);
}

TEST_F(TrialTest, PassingIsBeginningWithoutAsking) {
  Trial asked;
  unsigned passed = 0;
  for (unsigned i = 0; i < 100'000; ++i) {
    const Trial::Way way = asked.begin(now_);
    asked.note(kObjects);
    EXPECT_FALSE(trial_.passes(Trial::kRoom));
    const bool passes = trial_.passes(Trial::kOwn);
    passed += passes;
    if (passes) {
      ASSERT_EQ(way, Trial::kOwn) << i;
    } else {
      ASSERT_EQ(trial_.begin(now_), way) << i;
      trial_.note(kObjects);
    }
    now_ += room_is_slower(way);
  }
  EXPECT_GT(passed, 90'000u);
}

TEST_F(TrialTest, AClockThatStandsStillOrGoesBackIsNoFault) {
  const auto none = [](Trial::Way) { return uint64_t{0}; };
  EXPECT_EQ(by_room(kTrial + Trial::kLeastPause, none), kOfRoom);
  for (unsigned i = 0; i < 2 * kTrial; ++i) {
    event(none);
    now_ -= 1000;
  }
}

}  // namespace
}  // namespace loft
