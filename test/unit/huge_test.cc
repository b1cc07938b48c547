// The way to a huge object from anywhere in it, through all that happens to it.
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>

#include <map>
#include <random>
#include <utility>

#include "cache/object.h"
#include "control.h"
#include "hardened/guarded.h"
#include "heap/large.h"
#include "os/os.h"
#include "os/residency.h"
#include "space/span.h"
#include "stats/residents.h"
#include "unit/support.h"

namespace loft {
namespace {

using large::kHuge;
using test::address;
using test::kMiB;
using test::number;

constexpr size_t kHugeGranules = kHuge >> kGranuleLog;

Large* at(const void* p) {
  const Entry entry = large::entry_around(p);
  return entry.bin() == kLarge ? large::at(entry) : nullptr;
}

// Locations in [base, end) at which a way may begin or end.
template <class Look>
bool everywhere(uintptr_t base, uintptr_t end, Look look) {
  for (uintptr_t p = base; p < end; p += kHuge / 16 - 3 * kGranule) {
    if (!look(p)) return false;
  }
  for (uintptr_t p = round_up(base, kHuge) - kGranule; p < end; p += kHuge) {
    for (const uintptr_t near : {p, p + kGranule - 1, p + kGranule}) {
      if (near >= base && near < end && !look(near)) return false;
    }
  }
  return look(base) && look(base + kGranule - 1) && look(end - 1) && look(end - kGranule);
}

class HugeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(span::initialise());
    span::purge(0);
    if (!os::has_memory_for(4 * kHuge)) GTEST_SKIP() << "the system grants little memory";
  }
  void TearDown() override {
    for (const auto& [base, object] : live_) large::release(object);
    span::purge(0);
  }

  Large* allocate(size_t bytes) {
    void* const p = test::allocate_large(bytes, kGranule, false);
    EXPECT_NE(p, nullptr);
    return note(large::at(pagemap.of(p)));
  }
  Large* note(Large* object) {
    live_[object->base] = object;
    return object;
  }
  void release(Large* object) {
    live_.erase(object->base);
    const Large was = *object;
    large::release(object);
    expect_none(was.base, limit_of(was));
  }
  bool resize(Large* object, size_t bytes) {
    const Large was = *object;
    if (large::resize(object, bytes) == nullptr) return false;
    live_.erase(was.base);
    note(object);
    expect_all(object);
    if (object->base != was.base) {
      expect_none(was.base, limit_of(was));
    } else if (object->granules < was.granules) {
      expect_none(limit_of(*object), limit_of(was));
    }
    return true;
  }

  static uintptr_t limit_of(const Large& object) {
    return object.base + (object.granules << kGranuleLog);
  }
  static void expect_all(const Large* object) {
    EXPECT_TRUE(everywhere(object->base, limit_of(*object), [=](uintptr_t p) {
      return at(address(p)) == object && number(object_of(address(p)).start) == object->base;
    }));
    EXPECT_EQ(pagemap.of(address(object->base)).bin(), kLarge);
  }
  static void expect_none(uintptr_t base, uintptr_t end) {
    EXPECT_TRUE(everywhere(base, end, [](uintptr_t p) {
      return at(address(p)) == nullptr && object_of(address(p)).start == nullptr;
    }));
  }
  void expect_all() const {
    for (const auto& [base, object] : live_) expect_all(object);
  }

  std::map<uintptr_t, Large*> live_;
};

TEST_F(HugeTest, FromAnywhereInIt) {
  for (const size_t bytes : {kHuge - kGranule, kHuge, kHuge + 1, 2 * kHuge - 1, 3 * kHuge}) {
    allocate(bytes);
  }
  expect_all();
  while (!live_.empty()) {
    release(live_.begin()->second);
    expect_all();
  }
}

// Whether pages count as resident that were only read (os/residency.h).
bool tells_what_is_read() {
  const size_t bytes = os::page_size();
  void* const page = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto at = number(page);
  static_cast<void>(*static_cast<const volatile char*>(page));
  os::Residency residency;
  residency.begin(at, at + bytes);
  const bool counts = residency.until(at + bytes).resident != 0;
  munmap(page, bytes);
  return counts;
}

TEST_F(HugeTest, TakesNoTable) {
  const auto tables = [] { return look_at_residents().metadata; };
  allocate(kGranule);
  const size_t before = tables();
  Large* const object = allocate(4 * kHuge);
  EXPECT_LE(tables(), before + 32 * 1024) << "of 512 KiB";
  release(object);
  // An older kernel takes pages of the table that were only read for resident.
  if (tells_what_is_read()) return;
  EXPECT_LE(tables(), before + 32 * 1024);
}

TEST_F(HugeTest, BecomesOneAndIsOneNoMore) {
  Large* const object = allocate(kHuge - 10 * kGranule);
  const uintptr_t base = object->base;
  EXPECT_EQ(pagemap.of(address(base + kHuge / 2)).bin(), kLarge);
  for (const size_t bytes :
       {kHuge + 3 * kGranule, 2 * kHuge + kGranule, kHuge + kGranule, kHuge - kGranule, kHuge,
        3 * kHuge, 300 * kMiB, kHuge + kHuge / 2, kMiB}) {
    if (!resize(object, bytes)) {
      ASSERT_FALSE(os::can_move_pages(false)) << bytes;  // older kernels move none
      continue;
    }
    EXPECT_EQ(pagemap.of(address(object->base + kGranule)).bin(),
              object->granules < kHugeGranules ? kLarge : kNothing);
  }
  release(object);
}

TEST_F(HugeTest, GoesWithItsPages) {
  Large* const object = allocate(kHuge + kGranule);
  auto* p = reinterpret_cast<unsigned char*>(object->base);
  p[0] = p[kHuge / 2] = p[kHuge] = 7;
  allocate(kMiB);                              // behind it
  if (!resize(object, 2 * kHuge + 5)) return;  // emulators move no pages
  p = reinterpret_cast<unsigned char*>(object->base);
  EXPECT_EQ(p[0] + p[kHuge / 2] + p[kHuge], 3 * 7);
  expect_all();
  allocate(kMiB);
  if (resize(object, 3 * kHuge)) {
    p = reinterpret_cast<unsigned char*>(object->base);
    EXPECT_EQ(p[0] + p[kHuge / 2] + p[kHuge], 3 * 7);
  }
  ASSERT_TRUE(resize(object, 8 * kMiB));
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(object->base), 7);
  release(object);
}

TEST_F(HugeTest, BetweenGuards) {
  auto* const p = static_cast<char*>(large::allocate_guarded(kHuge + 1, 1));
  ASSERT_NE(p, nullptr);
  Large* const object = large::at(pagemap.of(p));
  const Large was = *object;
  EXPECT_EQ(object_of(p + kHuge).start, p);
  EXPECT_EQ(at(p + kHuge), object);
  ASSERT_TRUE(large::shrink_guarded(object, kMiB));
  EXPECT_EQ(object_of(p + kMiB - 1).start, p);
  EXPECT_EQ(object_of(p + kHuge).start, nullptr) << "what was given up";
  large::release_guarded(object);
  expect_none(was.base, limit_of(was));
  large::empty_guarded();
}

TEST_F(HugeTest, WhatTheSystemWouldNotGrantIsRefused) {
  if (os::has_memory_for(size_t{1} << 44)) GTEST_SKIP() << "the system grants everything";
  const auto in_use = [] { return span::counted() - span::totals().dirty; };
  const size_t before = in_use();
  EXPECT_EQ(test::allocate_large(size_t{1} << 44, kGranule, false), nullptr);
  Large* const object = allocate(kMiB);
  EXPECT_EQ(large::resize(object, size_t{1} << 44), nullptr);
  EXPECT_EQ(large::expand(object, size_t{1} << 44), nullptr);
  release(object);
  EXPECT_EQ(large::allocate_guarded(size_t{1} << 44, 1), nullptr);
  EXPECT_EQ(in_use(), before);
}

TEST_F(HugeTest, RandomAgainstAMap) {
  std::mt19937_64 random(test::seed());
  const auto draw = [&] { return kGranule + random() % (2 * kHuge + kHuge / 2); };
  for (int step = 0; step < 400; ++step) {
    if (live_.size() < 8 && random() % 2 == 0) {
      allocate(draw());
    } else if (!live_.empty()) {
      auto it = live_.begin();
      std::advance(it, random() % live_.size());
      Large* const object = it->second;
      if (random() % 3 == 0) {
        release(object);
      } else {
        resize(object, draw());
      }
    }
    if (random() % 8 == 0) span::purge(0);
    if (step % 10 == 0) expect_all();
  }
}

}  // namespace
}  // namespace loft
