// Magazines with the test in the room's place: it decides when a call is heard, and whether.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/options.h"
#include "front/allocate.h"
#include "heap/registry.h"
#include "limits/limits.h"
#include "room/magazines.h"
#include "space/span.h"
#include "thread/idle.h"
#include "thread/lifecycle.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::in_thread;

constexpr size_t kMagazineSize = 512;  // its bins never become long enough for a depot
const SizeClass kClass = class_of(kMagazineSize);

// The room's thread does its work once.
void room_works() {
  for (Magazines* caller = magazines::take_calls(); caller != nullptr;) {
    caller = magazines::serve(registry::common_heap(), caller);
  }
}

ClassMagazines& mine() { return this_thread()->magazines->classes[kClass]; }
bool has_magazines() { return this_thread()->magazines != nullptr; }
uint32_t state_of(const Slot& slot) { return slot.state.load(); }

// Objects that are not free in their slabs.
unsigned long out() { return registry::common_heap()->counters().classes[kClass].out(); }

// A trial of each kind for the class, after which the thread serves itself.
void let_the_room_lose(Trials& trials) {
  trials = Trials{};
  for (Trial* trial : {&trials.refills[kClass], &trials.flushes[kClass]}) {
    for (uint64_t event = 0, now = 1; event <= Trial::kEndOfRoom; ++event) {
      now += trial->begin(now) == Trial::kOwn ? 100 : 200;
      trial->note(1);
    }
  }
}

class MagazinesTest : public testing::Test {
 protected:
  // Before anybody has a heap: nothing is set up by itself here.
  static void SetUpTestSuite() {
    options.owner.store(kOwnerRoom);
    options.room_serves.store(kServesAlways);
  }

  void SetUp() override {
    deallocate(allocate(16));
    room::state.store(room::kAwake);  // and nobody is there
    ASSERT_EQ(out(), 0u);
  }
  void TearDown() override {
    room_works();
    EXPECT_EQ(out(), 0u) << "something was lost";
  }

  void allocate_until(bool (*enough)()) {
    while (!enough()) {
      void* p = allocate(kMagazineSize);
      EXPECT_TRUE(held_.insert(p).second) << "handed out twice";
    }
  }
  // The bin of the thread holds nothing more.
  void empty_bin() {
    allocate_until([] { return *this_thread()->bins[kClass].top() == nullptr; });
  }
  void free_some(size_t count) {
    for (; count != 0; --count) {
      deallocate(*held_.begin());
      held_.erase(held_.begin());
    }
  }
  void free_all() { free_some(held_.size()); }
  // A magazine is ready, and another one flushed and not taken yet.
  void fly() {
    allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
    while (held_.size() < 3000) held_.insert(allocate(kMagazineSize));
    room_works();
    while (state_of(mine().returned) != Slot::kRooms) free_some(1);
    ASSERT_EQ(state_of(mine().ready), Slot::kThreads);
  }

  std::set<void*> held_;
};

TEST_F(MagazinesTest, OneIsFilledAheadAndTakenWhole) {
  in_thread([this] {
    allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
    EXPECT_EQ(mine().ready.objects, 0u);
    room_works();
    ASSERT_EQ(state_of(mine().ready), Slot::kThreads);
    void** const full = mine().ready.slots;
    const unsigned objects = mine().ready.objects;
    EXPECT_GT(objects, 0u);
    EXPECT_EQ(magazines::held(this_thread(), kClass).ready, objects);
    EXPECT_LE(this_thread()->capacity_bytes, get(options.cache_bytes));

    const unsigned long ready = this_thread()->counters.room_ready.get();
    const unsigned long taken = registry::common_heap()->counters().classes[kClass].taken.get();
    empty_bin();
    const size_t before = held_.size();
    held_.insert(allocate(kMagazineSize));
    EXPECT_EQ(this_thread()->states[kClass].slots, full) << "array against array";
    empty_bin();
    EXPECT_EQ(held_.size() - before, objects);
    EXPECT_EQ(registry::common_heap()->counters().classes[kClass].taken.get(), taken)
        << "no slab was looked at";
    EXPECT_EQ(this_thread()->counters.room_ready.get(), ready + 1);
    EXPECT_EQ(state_of(mine().ready), Slot::kRooms) << "the next one is called for";
    free_all();
  });
}

TEST_F(MagazinesTest, AFlushIsTakenHomeAndTheYoungerHalfStays) {
  in_thread([this] {
    allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
    while (held_.size() < 3000) held_.insert(allocate(kMagazineSize));
    void* last = nullptr;
    while (state_of(mine().returned) != Slot::kRooms) {
      last = *held_.begin();
      free_some(1);
    }
    EXPECT_EQ(*this_thread()->bins[kClass].top(), last);
    const unsigned flown = mine().returned.objects;
    EXPECT_EQ(magazines::held(this_thread(), kClass).returned, flown);
    const unsigned long put = registry::common_heap()->counters().classes[kClass].put.get();
    room_works();
    EXPECT_EQ(state_of(mine().returned), Slot::kThreads);
    EXPECT_EQ(registry::common_heap()->counters().classes[kClass].put.get(), put + flown);
    // It stays what it was: the last one freed comes first.
    EXPECT_EQ(allocate(kMagazineSize), last);
    deallocate(last);
    free_all();
  });
}

// The time from one event to the next is this test's thread's, whatever it is: what a trial finds
// is not to be known, but that it is made.
TEST_F(MagazinesTest, ByTrialTheRoomServesSomeOfTheEvents) {
  options.room_serves.store(kServesByTrial);
  in_thread([this] {
    deallocate(allocate(kMagazineSize));
    const ThreadCounters& counters = this_thread()->counters;
    const auto asked = [&] { return counters.room_ready.get() + counters.room_late.get(); };
    const auto told = [&] { return counters.room_returns.get() + counters.room_behind.get(); };
    const unsigned long asked_before = asked();
    const unsigned long told_before = told();
    const auto tried = [&] {
      const Trials* trials = this_thread()->magazines->trials;
      const auto is_over = [](const Trial& trial) {
        return trial.rests_at(Trial::kOwn) || trial.rests_at(Trial::kRoom);
      };
      return trials != nullptr && is_over(trials->refills[kClass]) &&
             is_over(trials->flushes[kClass]);
    };
    for (unsigned rounds = 0; !has_magazines() || !tried(); ++rounds) {
      ASSERT_LT(rounds, 1000u) << "nothing was tried";
      while (held_.size() < 5'000) held_.insert(allocate(kMagazineSize));
      room_works();
      free_all();
      room_works();
    }
    EXPECT_GT(asked(), asked_before);
    EXPECT_GT(told(), told_before);
    // Whatever it was that they found: where the thread serves itself, nothing waits for the room.
    Trials& trials = *this_thread()->magazines->trials;
    let_the_room_lose(trials);
    ASSERT_TRUE(trials.refills[kClass].rests_at(Trial::kOwn));
    magazines::review(this_thread(), kClass);
    EXPECT_EQ(magazines::held(this_thread(), kClass).all(), 0u);
    EXPECT_EQ(state_of(mine().ready), Slot::kNone);
    EXPECT_EQ(state_of(mine().returned), Slot::kNone);
    free_all();
  });
  options.room_serves.store(kServesAlways);
}

// The bin starts over, and what the room has got ready for it goes back as well.
TEST_F(MagazinesTest, WhereMemoryIsTightNothingIsReady) {
  in_thread([this] {
    allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
    room_works();
    ASSERT_NE(magazines::held(this_thread(), kClass).all(), 0u);
    options.cache_bytes.store(kMagazineSize);  // of which little is left: the bin shrinks
    options.soft_limit.store(1);
    limits::weigh(span::committed());
    ASSERT_TRUE(limits::tight());
    const unsigned long refills = registry::common_heap()->counters().refills.get();
    while (registry::common_heap()->counters().refills.get() < refills + 2) {
      held_.insert(allocate(kMagazineSize));
    }
    EXPECT_EQ(magazines::held(this_thread(), kClass).all(), 0u);
    options.soft_limit.store(0);
    options.cache_bytes.store(size_t{4} << 20);
    limits::weigh(span::committed());
    free_all();
  });
}

TEST_F(MagazinesTest, ThatTheRoomIsToServeAlwaysTakesEffectAtOnce) {
  options.room_serves.store(kServesByTrial);
  in_thread([this] {
    allocate_until([] { return has_magazines() && this_thread()->magazines->trials != nullptr; });
    let_the_room_lose(*this_thread()->magazines->trials);
    const ThreadCounters& counters = this_thread()->counters;
    const auto asked = [&] { return counters.room_ready.get() + counters.room_late.get(); };
    const unsigned long before = asked();
    options.room_serves.store(kServesAlways);
    empty_bin();
    held_.insert(allocate(kMagazineSize));
    EXPECT_TRUE(asked() != before || state_of(mine().ready) == Slot::kRooms);
    free_all();
  });
}

TEST_F(MagazinesTest, ARoomThatNeverWorksIsNotWaitedFor) {
  in_thread([this] {
    deallocate(allocate(kMagazineSize));
    const unsigned long ready = this_thread()->counters.room_ready.get();  // for its last thread
    for (int round = 0; round < 5; ++round) {
      while (held_.size() < 20'000) EXPECT_TRUE(held_.insert(allocate(kMagazineSize)).second);
      free_all();
    }
    EXPECT_GT(this_thread()->counters.room_late.get(), 0u);
    EXPECT_GT(this_thread()->counters.room_behind.get(), 0u);
    EXPECT_EQ(this_thread()->counters.room_ready.get(), ready);
  });
  EXPECT_EQ(out(), 0u) << "its magazines came back";
}

// What calloc gets from the room reads as zero, whoever wrote to it before.
TEST_F(MagazinesTest, CallocTakesWhatTheRoomHasCleared) {
  options.room_prepare.store(kPrepareZero);
  in_thread([this] {
    allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
    for (void* p : held_) memset(p, 1, kMagazineSize);
    free_all();
    trim(0);
    const unsigned long cleared = this_thread()->counters.room_cleared.get();
    size_t from_room = 0;
    for (int i = 0; i < 1000; ++i) {
      const unsigned before = magazines::held(this_thread(), kClass).zeros;
      auto* p = static_cast<unsigned char*>(allocate_zeroed(kMagazineSize));
      from_room += before != 0 ? 1 : 0;
      ASSERT_TRUE(held_.insert(p).second) << "handed out twice";
      EXPECT_EQ(std::count(p, p + kMagazineSize, 0), ptrdiff_t{kMagazineSize});
      memset(p, 1, kMagazineSize);
      if (i % 64 == 63) free_some(32);
      room_works();
    }
    EXPECT_GT(from_room, 900u);
    EXPECT_EQ(this_thread()->counters.room_cleared.get() - cleared, from_room);
    EXPECT_GT(magazines::held(this_thread(), kClass).zeros, 0u);
    free_all();
    // Nobody has asked for one between two reviews.
    magazines::review(this_thread(), kClass);
    EXPECT_GT(magazines::held(this_thread(), kClass).zeros, 0u);
    magazines::review(this_thread(), kClass);
    EXPECT_EQ(magazines::held(this_thread(), kClass).zeros, 0u);
    trim(0);
    EXPECT_EQ(out(), 0u);
  });
  options.room_prepare.store(kPrepareOff);
}

// A thread that ends between two steps of the room's takes the half-prepared magazine along.
TEST_F(MagazinesTest, AHalfPreparedOneIsTheHeaps) {
  options.room_prepare.store(kPrepareFault);
  in_thread([this] {
    allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
    room_works();
    ASSERT_EQ(state_of(mine().ready), Slot::kThreads);
    EXPECT_EQ(mine().prepared, mine().ready.objects);
    mine().prepared = 1;
    mine().ready.state.store(Slot::kRooms);
    free_all();
  });
  EXPECT_EQ(out(), 0u);
  options.room_prepare.store(kPrepareOff);
}

// Streams that the room is late for get longer magazines.
TEST_F(MagazinesTest, LatenessMakesThemLonger) {
  in_thread([this] {
    while (held_.size() < 20'000) held_.insert(allocate(kMagazineSize));
    EXPECT_GT(this_thread()->states[kClass].capacity, 255u);
    EXPECT_LE(this_thread()->capacity_bytes, get(options.cache_bytes));
    free_all();
  });
}

TEST_F(MagazinesTest, TheyComeBackWithTheirThread) {
  in_thread([this] {
    fly();
    free_all();
  });
  EXPECT_EQ(out(), 0u);
  // The dead thread's call is heard late, and means nothing.
  room_works();
  EXPECT_EQ(out(), 0u);
}

TEST_F(MagazinesTest, TheyComeBackWhileTheirThreadSleeps) {
  in_thread([this] {
    fly();
    free_all();
    Thread* const thread = this_thread();
    idle::begin_wait();
    EXPECT_EQ(state_of(thread->magazines->classes[kClass].ready), Slot::kNone);
    EXPECT_EQ(state_of(thread->magazines->classes[kClass].returned), Slot::kNone);
    EXPECT_LE(out(), 1u) << "all but the one that the bin keeps";
    room_works();
    EXPECT_LE(out(), 1u);
    held_.insert(allocate(kMagazineSize));
    EXPECT_EQ(this_thread(), thread);
    fly();
    free_all();
  });
}

TEST_F(MagazinesTest, ATrimEmptiesThem) {
  in_thread([this] {
    fly();
    free_all();
    trim(0);
    EXPECT_EQ(out(), 0u);
    fly();
    free_all();
  });
}

// In the child of a fork the room is gone, with whatever it had heard, and so are the threads.
TEST_F(MagazinesTest, AForkLosesNothing) {
  in_thread([this] {
    fly();
    // The child has this thread, which has nothing.
    std::thread([this] {
      EXPECT_TRUE(test::child_passes([this] {
        const bool all = out() == held_.size() && !magazines::anybody_calls();
        void* p = allocate(kMagazineSize);
        deallocate(p);
        free_all();
        return all;
      }));
    }).join();
    free_all();
  });
}

// A call of a thread that has ended since is in the list that the child does not have; the block's
// next thread must be heard all the same.
TEST_F(MagazinesTest, AForkForgetsOldCalls) {
  Thread* block = nullptr;
  in_thread([&] {
    fly();
    free_all();
    block = this_thread();
  });
  ASSERT_NE(block->magazines->calls.load(), 0u);
  EXPECT_TRUE(test::child_passes([&] {
    room::state.store(room::kAwake);
    bool heard = false;
    in_thread([&] {
      allocate_until([] { return has_magazines() && state_of(mine().ready) == Slot::kRooms; });
      room_works();
      heard = this_thread() == block && state_of(mine().ready) == Slot::kThreads;
      free_all();
    });
    return heard;
  }));
}

}  // namespace
}  // namespace loft
