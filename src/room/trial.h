// Finds the faster of two ways by trying both from time to time. Under owner=room, either the
// room serves a thread's refills and flushes of a class, or the thread itself. The answer depends
// on the program and on the distance between the two processors. The room saves the thread a look
// at slabs, but hands it arrays that another core has touched. Most of that cost arises later, with
// each object. So a trial measures the time between events, the program's work included.
//
// A trial is a run of events served by the thread, then as many by the room, or fewer once the room
// has taken longer. The first events of each run do not count, nor does the longest, in which the
// thread may have slept. Then all events go the better way, for a pause that doubles as long as
// trials agree: of the first two thousand events one in sixty goes the worse way, in the end one in
// a thousand. The room has to win twice in a row, because most trials show little but noise.
#pragma once

#include <cstdint>

#include "base/bits.h"

namespace loft {

class Trial {
 public:
  enum Way : uint8_t { kOwn, kRoom };

  // Whether begin needs the time: the next event is part of a trial, or ends one. The first event
  // after a pause needs none, as it does not count.
  bool wants_time() const { return event_ <= kEndOfRoom; }

  // True while all events go this way, until the next trial.
  bool rests_at(Way way) const { return event_ > kEndOfRoom && better_ == way; }

  // Counts an event that goes this way without a call of begin. False: begin has to be called.
  bool passes(Way way) {
    if (!rests_at(way) || event_ == kEndOfRoom + pause_) return false;
    ++event_;
    return true;
  }

  // Begins an event and returns the way it is to go. `now` is in nanoseconds, if wants_time().
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
  // The number of objects that the event moved.
  void note(unsigned objects) { objects_ = objects; }

  static constexpr uint32_t kUncounted = 4;
  static constexpr uint32_t kEndOfOwn = kUncounted + 32;
  static constexpr uint32_t kEndOfRoom = 2 * kEndOfOwn;
  static constexpr uint32_t kShortPause = 1 << 5;
  static constexpr uint32_t kLeastPause = 1 << 11;
  static constexpr uint32_t kLongestPause = 1 << 15;

 private:
  static constexpr uint64_t kLongestNs = 1'000'000'000;  // products in decide fit in a word

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
    constexpr uint64_t kMargin = 32;  // the room has to win by 1/32
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

  uint32_t event_ = 0;  // position in a trial and the pause after it
  uint32_t pause_ = 0;  // in events, after this trial
  uint32_t agreed_pause_ = kLeastPause / 2;
  Way better_ = kOwn;
  bool won_ = false;  // the room has won the last trial
  unsigned objects_ = 0;
  uint64_t begun_ = 0;
  Cost costs_[2] = {};
};

}  // namespace loft
