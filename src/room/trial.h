// Which of two ways lets a program get on faster, found by trying both now and then: under the
// policy `keeper`, whether the room serves a thread's refills and flushes of a class, or the thread
// itself does. That depends on the program, and on how far from each other the two processors are:
// the room saves the thread a look at slabs, and costs it arrays that another core has touched.
// Most of that is paid later, with each object; so what counts is the time from one event to the
// next, with all that the program does meanwhile.
//
// A trial is some events of the thread's own, then as many by the room, or until that has taken
// longer; the first of each are not counted, nor is the longest, in which the thread may have
// slept. Then all events go the better way, for a time that doubles as long as trials agree: of the
// first two thousand events one in sixty goes the worse way, in the end one in a thousand. The room
// is the better one if it wins twice in a row, as most trials tell little else than noise.
#pragma once

#include <cstdint>

#include "base/bits.h"

namespace loft {

class Trial {
 public:
  enum Way : uint8_t { kOwn, kRoom };

  // Whether the next event is one of a trial, or ends one: begin is told the time.
  bool wants_time() const { return event_ <= kEndOfRoom; }

  // All events go this way, until the next trial.
  bool rests_at(Way way) const { return event_ > kEndOfRoom && better_ == way; }

  // Counts an event that goes this way without further ado; false where begin has to be asked.
  bool passes(Way way) {
    if (!rests_at(way) || event_ == kEndOfRoom + pause_) return false;
    ++event_;
    return true;
  }

  // An event begins, `now` in nanoseconds if that is wanted. Returns which way it is to go.
  Way begin(uint64_t now) {
    if (event_ != 0) end_last(now);
    if (event_ == kEndOfRoom + pause_) {
      event_ = 0;
      costs_[kOwn] = costs_[kRoom] = Cost{};
    }
    begun_ = now;
    objects_ = 0;
    return way_of(event_++);
  }
  // How many objects it brought, or took.
  void note(unsigned objects) { objects_ = objects; }

  static constexpr uint32_t kUncounted = 4;
  static constexpr uint32_t kEndOfOwn = kUncounted + 32;
  static constexpr uint32_t kEndOfRoom = 2 * kEndOfOwn;
  static constexpr uint32_t kShortPause = 1 << 5;
  static constexpr uint32_t kLeastPause = 1 << 11;
  static constexpr uint32_t kLongestPause = 1 << 15;

 private:
  static constexpr uint64_t kLongestNs = 1'000'000'000;  // products of these fit in a word

  struct Cost {
    uint64_t ns;
    uint64_t longest;
    uint64_t objects;

    uint64_t counted() const { return ns - longest; }
  };

  Way way_of(uint32_t event) const {
    if (event < kEndOfOwn) return kOwn;
    return event < kEndOfRoom ? kRoom : better_;
  }

  void end_last(uint64_t now) {
    const uint32_t last = event_ - 1;
    if (last >= kEndOfRoom) return;
    if (last % kEndOfOwn >= kUncounted) {
      Cost& cost = costs_[way_of(last)];
      const uint64_t ns = least(now - least(begun_, now), kLongestNs);
      cost.ns += ns;
      cost.longest = most(cost.longest, ns);
      cost.objects += objects_;
    }
    const Cost& own = costs_[kOwn];
    const Cost& room = costs_[kRoom];
    if (room.counted() > own.counted() && room.objects <= own.objects) event_ = kEndOfRoom;
    if (event_ == kEndOfRoom) decide();
  }

  void decide() {
    const Cost& own = costs_[kOwn];
    const Cost& room = costs_[kRoom];
    constexpr uint64_t kMargin = 32;  // by a part of that it has to win
    const bool wins =
        room.counted() * own.objects / (kMargin - 1) < own.counted() * room.objects / kMargin;
    const Way before = better_;
    const bool again = wins && !won_ && before == kOwn;
    won_ = wins;
    if (again) {
      pause_ = kShortPause;
      return;
    }
    better_ = wins ? kRoom : kOwn;
    agreed_pause_ = better_ == before ? least(2 * agreed_pause_, kLongestPause) : kLeastPause;
    pause_ = agreed_pause_;
  }

  uint32_t event_ = 0;  // of a trial and the pause after it
  uint32_t pause_ = 0;  // after this trial
  uint32_t agreed_pause_ = kLeastPause / 2;
  Way better_ = kOwn;
  bool won_ = false;  // the room, the last trial
  unsigned objects_ = 0;
  uint64_t begun_ = 0;
  Cost costs_[2] = {};
};

}  // namespace loft
