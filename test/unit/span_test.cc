// Spans against a shadow of the window: what is live, and of what is free, which part is resident.
#include "space/span.h"
#include "runtime/round.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "control.h"
#include "os/limits.h"
#include "os/os.h"
#include "space/free_spans.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/window.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::reads_zero;

constexpr Entry kMark(kNoHeap, kLarge, 1);

class SpanTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(span::initialise());
    test::advance_ms(1000);  // past every pause between purges
    // Spans are given back when the test says so.
    options.dirty_bytes.store(SIZE_MAX);
  }
  // Everything is free again, so that the next test may count from zero.
  void TearDown() override { span::purge(0); }

  static uintptr_t acquire(size_t granules, size_t alignment = kGranule) {
    const span::Range range = span::acquire(granules, alignment);
    EXPECT_NE(range.base, 0u);
    pagemap.fill(range.base, granules, kMark);
    return range.base;
  }

  static size_t longer_than_any() { return span::used_bytes() / kGranule + 10; }

 private:
  test::DefaultOptions defaults_;
};

TEST_F(SpanTest, FreedNeighboursJoinInEveryOrder) {
  std::vector<int> order = {0, 1, 2};
  do {
    const uintptr_t base = acquire(9);
    for (const int part : order) {
      span::release(base + static_cast<uintptr_t>(part) * 3 * kGranule, 3, true);
    }
    const span::Range again = span::acquire(9, kGranule);
    EXPECT_EQ(again.base, base);
    EXPECT_FALSE(again.zero);
    pagemap.fill(again.base, 9, kMark);
    span::release(again.base, 9, true);
  } while (std::next_permutation(order.begin(), order.end()));
}

#if !defined(LOFT_TEST_ADDRESS_SANITIZER) && \
    !defined(LOFT_TEST_THREAD_SANITIZER)  // they have terabytes of addresses
// Free memory of which some is unmapped and some only discarded, in turn, as purges at different
// times leave it. None of it is long enough by itself, and the limit has no room for more beside
// it.
TEST_F(SpanTest, WhatIsFreeServesALongSpanWhereAddressesAreLimited) {
  constexpr size_t kPairs = 32;
  constexpr size_t kLong = (2 << 20) / kGranule;
  constexpr size_t kShort = (256 << 10) / kGranule;
  constexpr size_t kAll = kPairs * (kLong + kShort);
  EXPECT_TRUE(test::child_passes([] {
    const uintptr_t base = acquire(kAll);
    for (const bool short_ones : {false, true}) {
      for (uintptr_t at = base; at < base + kAll * kGranule; at += (kLong + kShort) * kGranule) {
        short_ones ? span::release(at + kLong * kGranule, kShort, true)
                   : span::release(at, kLong, true);
      }
      while (span::purge_step(SIZE_MAX) != 0) {
      }
    }
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t room = kPairs * kLong * kGranule + (4 << 20);
    const rlimit limit = {pages * os::page_size() + room, RLIM_INFINITY};
    return setrlimit(RLIMIT_AS, &limit) == 0 && span::acquire(kAll, kGranule).base != 0;
  }));
}
#endif

TEST_F(SpanTest, ResidentAndCleanNeighboursStayApart) {
  const uintptr_t base = acquire(1000);
  const span::SpanTotals before = span::totals();
  span::release(base, 500, true);
  ASSERT_TRUE(os::discard(address(base + 500 * kGranule), 500 * kGranule));
  span::release(base + 500 * kGranule, 500, false);
  EXPECT_EQ(span::totals().dirty - before.dirty, 500 * kGranule);
  EXPECT_EQ(span::totals().clean - before.clean, 500 * kGranule);
  // Resident memory is used first.
  const span::Range dirty = span::acquire(500, kGranule);
  EXPECT_EQ(dirty.base, base);
  EXPECT_FALSE(dirty.zero);
  const span::Range clean = span::acquire(500, kGranule);
  EXPECT_EQ(clean.base, base + 500 * kGranule);
  EXPECT_TRUE(clean.zero);
  span::release(base, 1000, true);
}

TEST_F(SpanTest, PurgeGivesTheLongestBackUntilItMay) {
  span::purge(0);
  const uintptr_t base = acquire(100);
  memset(address(base), 1, 100 * kGranule);
  // Pieces of 60 and 20, kept apart by granules in use.
  span::release(base, 60, true);
  span::release(base + 70 * kGranule, 20, true);
  EXPECT_EQ(span::totals().dirty, 80 * kGranule);
  EXPECT_EQ(span::purge(30 * kGranule), 50 * kGranule);
  EXPECT_EQ(span::totals().dirty, 30 * kGranule);
  // The end of the longest went.
  EXPECT_EQ(static_cast<char*>(address(base))[0], 1);
  ASSERT_EQ(os::map_at(address(base + 10 * kGranule), 50 * kGranule), os::Mapped::kYes)
      << "unmapped, as it is long";
  os::unmap(address(base + 10 * kGranule), 50 * kGranule);
  EXPECT_EQ(static_cast<char*>(address(base + 70 * kGranule))[0], 1);
  EXPECT_EQ(span::purge(30 * kGranule), 0u);
  EXPECT_EQ(span::purge(0), 30 * kGranule);
  span::release(base + 60 * kGranule, 10, true);
  span::release(base + 90 * kGranule, 10, true);
}

TEST_F(SpanTest, OnlyWhatNobodyNeededForAWhileIsIdle) {
  const size_t used = 100 * span::kPlentyShare;  // beside which a hundred are not too much
  const uintptr_t in_use = acquire(used);
  span::purge(0);
  const auto tick = [] {
    size_t idle = 0;
    for (unsigned i = 0; i <= span::kDecayTicks; ++i) idle = span::idle_bytes();
    return idle;
  };
  EXPECT_EQ(tick(), 0u);
  const uintptr_t base = acquire(100);
  span::release(base, 100, true);
  EXPECT_EQ(span::idle_bytes(), 0u) << "there for a moment only";
  EXPECT_EQ(tick(), 100 * kGranule);
  // Sixty are used now and then: forty are idle.
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(acquire(60), base);
    EXPECT_EQ(span::idle_bytes(), 40 * kGranule);
    span::release(base, 60, true);
    EXPECT_EQ(span::idle_bytes(), 40 * kGranule);
  }
  EXPECT_EQ(span::purge_step(40 * kGranule), 40 * kGranule);
  EXPECT_EQ(span::totals().dirty, 60 * kGranule);
  EXPECT_EQ(span::idle_bytes(), 0u) << "what was given back is idle no longer";
  const uint32_t ticks = span::ticks();
  EXPECT_EQ(tick(), 60 * kGranule);
  EXPECT_EQ(span::ticks(), ticks + span::kDecayTicks + 1);
  span::release(in_use, used, true);
}

TEST_F(SpanTest, TheMoreIsFreeTheSoonerItIsIdle) {
  const uintptr_t in_use = acquire(4 * span::kPlentyShare);
  span::purge(0);
  for (unsigned i = 0; i <= span::kDecayTicks; ++i) span::idle_bytes();
  const uintptr_t base = acquire(100);
  span::release(base, 100, true);
  EXPECT_EQ(span::idle_bytes(), 0u) << "there for a moment only";
  const size_t rest = (100 - 4) * kGranule;
  EXPECT_EQ(span::idle_bytes(), rest);
  EXPECT_EQ(span::purge_step(rest), rest);
  EXPECT_EQ(span::idle_bytes(), 2 * kGranule) << "beyond a half of it after two ticks";
  EXPECT_EQ(span::idle_bytes(), 3 * kGranule) << "beyond a quarter after three";
  for (unsigned tick = 3; tick < span::kDecayTicks; ++tick) span::idle_bytes();
  EXPECT_EQ(span::idle_bytes(), 4 * kGranule) << "in the end all of it";
  // Needed in the midst of a tick: 40 of what is too much then.
  const uintptr_t more = acquire(100);
  span::release(more, 100, true);
  span::idle_bytes();
  const size_t dirty = span::totals().dirty;
  const uintptr_t again = acquire(40);
  span::release(again, 40, true);
  EXPECT_EQ(span::totals().dirty, dirty);
  EXPECT_EQ(span::idle_bytes(), dirty - (40 + 4) * kGranule);
  // Given back for its size: what was dirty before that does not count.
  const uint64_t most = get(options.dirty_bytes);
  options.dirty_bytes.store(kGranule, memory_order_relaxed);
  span::release(in_use, 4 * span::kPlentyShare, true);
  purge_excess();
  options.dirty_bytes.store(most, memory_order_relaxed);
  EXPECT_LE(span::idle_bytes(), span::totals().dirty);
}

TEST_F(SpanTest, APurgeTakesManySpansAtOnceAndNoMoreThanItMay) {
  span::purge(0);
  const uintptr_t base = acquire(400);
  for (uintptr_t i = 0; i < 400; i += 2) span::release(base + i * kGranule, 1, true);
  const unsigned long calls = os::calls().discards;
  size_t purged = 0;
  while (const size_t step = span::purge_step(150 * kGranule - purged)) {
    EXPECT_LE(step, 64 * kGranule);
    purged += step;
    if (purged == 150 * kGranule) break;
  }
  EXPECT_EQ(purged, 150 * kGranule);
  EXPECT_EQ(span::totals().dirty, 50 * kGranule);
  EXPECT_LE(os::calls().discards - calls, 150u + 3u);
  for (uintptr_t i = 1; i < 400; i += 2) span::release(base + i * kGranule, 1, true);
}

TEST_F(SpanTest, ReleaseKeepsToTheOption) {
  span::purge(0);
  options.dirty_bytes.store(10 * kGranule);
  const uintptr_t base = acquire(64);
  span::release(base, 8, true);
  EXPECT_EQ(span::totals().dirty, 8 * kGranule);
  span::release(base + 20 * kGranule, 8, true);
  purge_excess();
  EXPECT_LE(span::totals().dirty, 10 * kGranule);
  span::release(base + 8 * kGranule, 12, true);
  span::release(base + 28 * kGranule, 36, true);
  purge_excess();
  EXPECT_LE(span::totals().dirty, 10 * kGranule);
}

// Free spans that are too short for all serve as many as they can, under one hold of the lock.
TEST_F(SpanTest, SeveralSlabsComeFromShortSpans) {
  const uintptr_t base = acquire(7);
  memset(address(base), 1, 7 * kGranule);
  for (const unsigned i : {1, 3, 5}) span::release(base + i * kGranule, 1, true);
  span::Range ranges[8];
  const size_t locks = span::totals().locks;
  EXPECT_EQ(span::acquire_slabs(1, 8, 0, ranges), 3u);
  EXPECT_EQ(span::totals().locks, locks + 1);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_FALSE(ranges[i].zero);
    pagemap.fill(ranges[i].base, 1, kMark);
  }
  span::release(base, 7, true);
}

// Locked pages cannot be discarded.
TEST_F(SpanTest, LockedSpansAreUnmapped) {
  constexpr size_t kCount = 2080;  // more than two steps of a purge
  span::purge(0);
  const uintptr_t base = acquire(kCount);
  // The sanitizers' own mlock does nothing.
  if (syscall(SYS_mlock, address(base), kCount * kGranule) != 0) {
    span::release(base, kCount, true);
    GTEST_SKIP() << "may not lock";
  }
  options.dirty_bytes.store(0);
  // A long one, and one of a single granule.
  span::release(base, kCount - 2, true);
  span::release(base + (kCount - 1) * kGranule, 1, true);
  purge_excess();
  EXPECT_EQ(span::totals().refused, 0u);
  EXPECT_EQ(span::totals().dirty, 0u);
  ASSERT_EQ(os::map_at(address(base), (kCount - 2) * kGranule), os::Mapped::kYes);
  os::unmap(address(base), (kCount - 2) * kGranule);
  ASSERT_EQ(os::map_at(address(base + (kCount - 1) * kGranule), kGranule), os::Mapped::kYes);
  os::unmap(address(base + (kCount - 1) * kGranule), kGranule);
  EXPECT_EQ(syscall(SYS_munlock, address(base + (kCount - 2) * kGranule), kGranule), 0);
  span::release(base + (kCount - 2) * kGranule, 1, true);
  // They are mapped again when they are wanted.
  const span::Range again = span::acquire(kCount - 2, kGranule);
  EXPECT_EQ(again.base, base);
  EXPECT_TRUE(again.zero);
  EXPECT_TRUE(reads_zero(address(again.base), kGranule));
  pagemap.fill(base, kCount - 2, kMark);
  span::release(base, kCount - 2, true);
}

// Sixty-four times as long as the last one took.
TEST(PurgePause, FollowsFromWhatAPurgeTakes) {
  PurgePause pause;
  unsigned purges = 0;
  const auto purge = [&] {
    ++purges;
    test::advance_ns(1000);
  };
  pause.purge_or_wait(false, purge);
  test::advance_ns(63'999);
  pause.purge_or_wait(false, purge);
  EXPECT_EQ(purges, 1u);
  test::advance_ns(1);
  pause.purge_or_wait(false, purge);
  EXPECT_EQ(purges, 2u);
  pause.purge_or_wait(true, purge);
  EXPECT_EQ(purges, 3u) << "what is scarce does not wait";
}

TEST_F(SpanTest, HugeRequestsAreRefused) {
  const size_t whole = (window.heap.end - window.heap.base) >> kGranuleLog;
  for (const size_t granules : {whole + 1, whole * 2, size_t{PTRDIFF_MAX} >> kGranuleLog}) {
    EXPECT_EQ(span::acquire(granules, kGranule).base, 0u) << granules;
  }
  for (size_t alignment = whole << kGranuleLog; alignment <= size_t{1} << 62; alignment *= 2) {
    EXPECT_EQ(span::acquire(whole / 2, alignment).base, 0u) << alignment;
  }
  const uintptr_t base = acquire(1);
  EXPECT_FALSE(span::extend(base + kGranule, whole));
  span::release(base, 1, true);
}

// An object that comes again a little longer each time, or after slabs took a granule of its span,
// takes the same addresses again, and as many new ones as it lacks.
TEST_F(SpanTest, WhatIsFreeLastGrows) {
  const size_t kLong = longer_than_any();
  const uintptr_t base = acquire(kLong);
  const size_t used = span::used_bytes();
  for (size_t more = 1; more <= 5; ++more) {
    span::release(base, kLong + more - 1, true);
    const span::Range range = span::acquire(kLong + more, kGranule);
    EXPECT_EQ(range.base, base);
    EXPECT_FALSE(range.zero);
    EXPECT_EQ(span::used_bytes(), used + more * kGranule);
  }
  span::release(base, kLong + 5, true);
}

// The same with two parts of different kinds.
TEST_F(SpanTest, WhatIsFreeLastGrowsInTwoParts) {
  const size_t kLong = longer_than_any();
  const uintptr_t base = acquire(kLong);
  const size_t used = span::used_bytes();
  span::release(base, kLong - 3, true);
  span::release(base + (kLong - 3) * kGranule, 3, false);
  const span::Range range = span::acquire(kLong + 2, kGranule);
  EXPECT_EQ(range.base, base);
  EXPECT_FALSE(range.zero);
  EXPECT_EQ(span::used_bytes(), used + 2 * kGranule);
  span::release(base, kLong + 2, true);
}

// A part of its span was purged: it takes what was and what is resident together.
TEST_F(SpanTest, TwoPartsOfDifferentKinds) {
  const size_t kLong = longer_than_any();
  const uintptr_t base = acquire(kLong + 1);
  const size_t behind = longer_than_any();
  const uintptr_t fence = acquire(behind);
  const size_t used = span::used_bytes();
  const size_t half = kLong / 2;
  span::release(base, half, true);
  span::release(base + half * kGranule, kLong + 1 - half, false);
  EXPECT_EQ(span::totals().dirty, half * kGranule);
  const span::Range range = span::acquire(kLong, kGranule);
  EXPECT_EQ(range.base, base);
  EXPECT_FALSE(range.zero);
  EXPECT_EQ(span::totals().dirty, 0u);
  EXPECT_EQ(span::used_bytes(), used);
  span::release(base, kLong, true);
  span::release(fence, behind, true);
}

// One byte for each granule of the window that was ever handed out.
class SpanShadow {
 public:
  enum class State : char { kFree, kDirty, kLive };

  static State state_of(const Span& span) {
    return span.state == kDirty ? State::kDirty : State::kFree;
  }

  size_t live() const { return live_; }
  uintptr_t frontier() const {
    const span::SpanTotals totals = span::totals();
    return window.heap.base + totals.dirty + totals.clean + live_;
  }

  State& at(uintptr_t base) {
    const size_t i = (base - window.heap.base) >> kGranuleLog;
    if (i >= states_.size()) states_.resize(i + 1, State::kFree);
    return states_[i];
  }

  // What is not zero is dirty, or has one part that is, and free ones beside it.
  void take(uintptr_t base, size_t granules, bool zero) {
    size_t dirty = 0;
    size_t changes = 0;
    for (size_t i = 0; i < granules; ++i) {
      const State state = at(base + i * kGranule);
      ASSERT_NE(state, State::kLive) << i;
      if (state == State::kDirty) ++dirty;
      if (i != 0 && state != at(base + (i - 1) * kGranule)) ++changes;
    }
    ASSERT_EQ(dirty == 0, zero);
    ASSERT_LE(changes, 2u);
    for (size_t i = 0; i < granules; ++i) at(base + i * kGranule) = State::kLive;
    live_ += granules * kGranule;
  }

  void give(uintptr_t base, size_t granules, bool dirty) {
    for (size_t i = 0; i < granules; ++i) {
      State& state = at(base + i * kGranule);
      ASSERT_EQ(state, State::kLive);
      state = dirty ? State::kDirty : State::kFree;
    }
    live_ -= granules * kGranule;
  }

  // The free span at a place; nullptr where there is none.
  const Span* span_at(uintptr_t base) {
    if (base >= frontier() || at(base) == State::kLive) return nullptr;
    return metadata::at_index<Span>(pagemap.of(address(base)).index());
  }

  // Follows the free spans through the pagemap: each is of one kind in the shadow, and as long as
  // can be.
  void compare() {
    const uintptr_t end = frontier();
    size_t dirty = 0;
    const Span* before = nullptr;
    for (uintptr_t base = window.heap.base; base < end;) {
      const Span* span = span_at(base);
      if (span == nullptr) {
        before = nullptr;
        base += kGranule;
        continue;
      }
      const Entry entry = pagemap.of(address(base));
      ASSERT_EQ(entry.bin(), kFreeSpan);
      ASSERT_EQ(span->base, base);
      for (size_t i = 0; i < span->granules; ++i) {
        ASSERT_EQ(state_of(*span), at(base + i * kGranule)) << i;
      }
      ASSERT_TRUE(before == nullptr || before->state != span->state);
      const uintptr_t last = base + (span->granules - 1) * kGranule;
      ASSERT_EQ(pagemap.of(address(last)).index(), entry.index());
      if (span->state == kDirty) dirty += span->granules * kGranule;
      base = last + kGranule;
      before = span;
    }
    ASSERT_EQ(span::totals().dirty, dirty);
    ASSERT_LE(end, window.heap.committed);
  }

  // After a purge: which spans went is the allocator's choice.
  void learn() {
    const uintptr_t end = frontier();
    for (uintptr_t base = window.heap.base; base < end;) {
      if (at(base) == State::kLive) {
        base += kGranule;
        continue;
      }
      const Span* span = metadata::at_index<Span>(pagemap.of(address(base)).index());
      for (size_t i = 0; i < span->granules; ++i) {
        State& state = at(base + i * kGranule);
        ASSERT_TRUE(span->state != kDirty || state == State::kDirty)
            << "a purge made nothing dirty";
        state = state_of(*span);
      }
      base += span->granules * kGranule;
    }
  }

 private:
  std::vector<State> states_;
  size_t live_ = 0;
};

TEST_F(SpanTest, RandomAgainstAShadow) {
  span::purge(0);
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  SpanShadow shadow;
  std::map<uintptr_t, size_t> live;
  const auto write = [&](uintptr_t base, size_t granules) {
    for (size_t i = 0; i < granules; ++i) {
      memset(address(base + i * kGranule + below(16) * 4096), 0x5a, 4096);
    }
  };
  const auto any = [&] { return std::next(live.begin(), static_cast<long>(below(live.size()))); };
  for (int step = 0; step < 4000; ++step) {
    switch (live.size() < 5 ? 0 : live.size() > 150 ? 3 : below(8)) {
      case 0:
      case 1:
      case 2: {
        const size_t granules = below(10) == 0 ? 1 + below(200) : 1 + below(6);
        const size_t alignment = below(4) == 0 ? kGranule << below(6) : kGranule;
        const uintptr_t frontier = shadow.frontier();
        const span::Range range = span::acquire(granules, alignment);
        ASSERT_NE(range.base, 0u);
        ASSERT_EQ(range.base % alignment, 0u);
        ASSERT_NO_FATAL_FAILURE(shadow.take(range.base, granules, range.zero));
        ASSERT_GE(shadow.frontier(), frontier);
        if (range.zero) {
          ASSERT_TRUE(reads_zero(address(range.base), granules * kGranule));
        }
        pagemap.fill(range.base, granules, kMark);
        write(range.base, granules);
        live[range.base] = granules;
        break;
      }
      case 3:
      case 4: {  // a whole span, or its tail
        const auto it = any();
        const size_t keep = below(3) == 0 ? below(it->second) : 0;
        const uintptr_t base = it->first + keep * kGranule;
        const size_t granules = it->second - keep;
        const bool dirty = below(4) != 0;
        if (!dirty) {
          ASSERT_TRUE(os::discard(address(base), granules * kGranule));
        }
        span::release(base, granules, dirty);
        ASSERT_NO_FATAL_FAILURE(shadow.give(base, granules, dirty));
        if (keep == 0) {
          live.erase(it);
        } else {
          it->second = keep;
        }
        break;
      }
      case 5:
      case 6: {
        const auto it = any();
        const uintptr_t end = it->first + it->second * kGranule;
        const size_t granules = 1 + below(4);
        const bool at_frontier = end == shadow.frontier();
        const Span* behind = shadow.span_at(end);
        const bool fits = at_frontier || (behind != nullptr && behind->granules >= granules);
        ASSERT_EQ(span::extend(end, granules), fits);
        if (!fits) break;
        const bool dirty = !at_frontier && shadow.at(end) == SpanShadow::State::kDirty;
        ASSERT_NO_FATAL_FAILURE(shadow.take(end, granules, !dirty));
        if (!dirty) {
          ASSERT_TRUE(reads_zero(address(end), granules * kGranule));
        }
        pagemap.fill(end, granules, kMark);
        write(end, granules);
        it->second += granules;
        break;
      }
      default: {
        const size_t before = span::totals().dirty;
        const size_t keep = below(3) * before / 2;
        const size_t purged = span::purge(keep);
        ASSERT_LE(span::totals().dirty, keep);
        ASSERT_EQ(before - span::totals().dirty, purged);
        ASSERT_NO_FATAL_FAILURE(shadow.learn());
        break;
      }
    }
    if (step % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(shadow.compare()) << step;
    }
  }
  for (const auto& [base, granules] : live) {
    span::release(base, granules, true);
    shadow.give(base, granules, true);
  }
  ASSERT_NO_FATAL_FAILURE(shadow.compare());
  EXPECT_EQ(shadow.live(), 0u);
}

// The last one that uses the window: its addresses are lost. What lies around a span that another
// mapping has come to lie in is not joined across it, not even where its descriptor has become that
// of its neighbour.
TEST_F(SpanTest, AddressesThatOthersHaveTakenAreLost) {
  constexpr size_t kBefore = 58;
  constexpr size_t kTaken = 48;
  constexpr size_t kBehind = 12;
  const uintptr_t base = acquire(kBefore + kTaken + kBehind);
  acquire(1);  // a fence
  const uintptr_t alone = acquire(kBefore + 1);
  acquire(1);
  const uintptr_t taken = base + kBefore * kGranule;
  span::release(taken, kTaken, true);
  span::purge(0);
  ASSERT_EQ(os::map_at(address(taken), kTaken * kGranule), os::Mapped::kYes) << "it is not mapped";
  memset(address(taken), 0x77, kTaken * kGranule);
  span::release(base, kBefore, true);
  span::release(taken + kTaken * kGranule, kBehind, true);
  span::release(alone, kBefore + 1, true);
  for (unsigned i = 0; i < 3; ++i) {
    const span::Range range = span::acquire(kTaken + kBehind, kGranule);
    ASSERT_NE(range.base, 0u);
    EXPECT_TRUE(range.base >= taken + kTaken * kGranule ||
                range.base + (kTaken + kBehind) * kGranule <= taken);
    memset(address(range.base), 1, (kTaken + kBehind) * kGranule);
  }
  for (size_t i = 0; i < kTaken * kGranule; i += 512) {
    ASSERT_EQ(*static_cast<const char*>(address(taken + i)), 0x77) << i;
  }
}

// What moves there would drop the pages of a resident span.
TEST_F(SpanTest, CleanSpansComeFirstWherePagesMoveIn) {
  const uintptr_t resident = acquire(6);
  const uintptr_t between = acquire(1);
  const uintptr_t clean = acquire(6);
  const uintptr_t behind = acquire(1);
  span::release(resident, 6, true);
  span::release(clean, 6, false);
  const size_t dirty = span::totals().dirty;
  const span::Range target = span::acquire_clean(6, 0);
  EXPECT_NE(target.base, 0u);
  EXPECT_TRUE(target.zero);
  EXPECT_EQ(span::totals().dirty, dirty);
  const span::Range ordinary = span::acquire(6, kGranule);
  EXPECT_FALSE(ordinary.zero);
  for (const uintptr_t base : {target.base, ordinary.base}) pagemap.fill(base, 6, kMark);
  span::release(target.base, 6, false, 0);
  span::release(ordinary.base, 6, true);
  for (const uintptr_t base : {between, behind}) span::release(base, 1, false);
}

TEST(SpanBins, SmallestThatFits) {
  SpanBins bins;
  EXPECT_EQ(bins.find(1), nullptr);
  EXPECT_EQ(bins.longest(), nullptr);
  std::vector<Span> spans;
  for (const size_t granules : {3, 5, 63, 64, 70, 200, 5000, 1 << 20}) {
    spans.push_back(Span{0, granules, kClean, nullptr, nullptr, false});
  }
  for (Span& s : spans) bins.insert(&s);
  for (size_t wanted = 1; wanted <= 1 << 20; wanted += wanted / 7 + 1) {
    const Span* found = bins.find(wanted);
    ASSERT_NE(found, nullptr) << wanted;
    ASSERT_GE(found->granules, wanted);
    for (const Span& s : spans) {
      // Below 64 granules the fit is the best there is; above, within a quarter of it.
      if (s.granules >= wanted) {
        EXPECT_LE(found->granules, s.granules + s.granules / 4) << wanted;
        if (s.granules < 64) {
          EXPECT_LE(found->granules, s.granules);
        }
      }
    }
  }
  EXPECT_EQ(bins.find((1 << 20) + 1), nullptr);
  EXPECT_EQ(bins.longest()->granules, size_t{1} << 20);
  for (Span& s : spans) bins.remove(&s);
  EXPECT_EQ(bins.longest(), nullptr);
}

}  // namespace
}  // namespace loft
