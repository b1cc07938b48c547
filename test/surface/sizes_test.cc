// Usable sizes that are known before, resizing in place, alignment that a resize keeps, zeroed
// objects with an alignment, and sized frees.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "loft/heap.hpp"
#include "loft/loft.h"
#include "surface/support.h"

namespace {

using surface::aligned;
using surface::kMiB;
using surface::opaque;

std::vector<size_t> some_sizes() {
  std::vector<size_t> sizes;
  for (size_t size = 1; size < 70'000; size += 1 + size / 7) sizes.push_back(size);
  for (size_t size = 70'000; size < 9 * kMiB; size += size / 2) sizes.push_back(size);
  for (const size_t edge : {size_t{16}, size_t{1024}, size_t{4096}, size_t{32} << 10,
                            size_t{128} << 10, size_t{4} << 20}) {
    for (const size_t size : {edge - 9, edge - 8, edge - 7, edge - 1, edge, edge + 1}) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

char pattern(size_t i) { return static_cast<char>(i * 7 + (i >> 8)); }

void fill(void* object, size_t from, size_t bytes) {
  auto* const p = static_cast<char*>(object);
  for (size_t i = from; i < bytes; ++i) p[i] = pattern(i);
}

bool holds(const void* object, size_t bytes) {
  const auto* const p = static_cast<const char*>(object);
  for (size_t i = 0; i < bytes; ++i) {
    if (p[i] != pattern(i)) return false;
  }
  return true;
}

bool is_zero(const void* object, size_t bytes) {
  const auto* const p = static_cast<const char*>(object);
  return std::all_of(p, p + bytes, [](char c) { return c == 0; });
}

// ---- Good sizes --------------------------------------------------------------------------------

TEST(GoodSize, IsTheUsableSize) {
  for (const size_t size : some_sizes()) {
    const size_t good = loft_good_size(size);
    ASSERT_GE(good, size);
    ASSERT_EQ(loft_good_size(good), good) << size;
    void* const p = loft_malloc(good);
    ASSERT_EQ(loft_malloc_usable_size(p), good) << size;
    loft_free_sized(p, good);
    if (surface::hardened() || surface::guarded())
      continue;  // where samples have what was asked for
    void* const q = loft_malloc(size);
    ASSERT_EQ(loft_malloc_usable_size(q), good) << size;
    loft_free_sized(q, size);
  }
}

TEST(GoodSize, IsThatOfAnAlignedObject) {
  for (size_t alignment = 1; alignment <= 4 * kMiB; alignment *= 4) {
    for (size_t size = 1; size < 9 * kMiB; size += 1 + size / 2) {
      const size_t good = loft_aligned_good_size(alignment, size);
      ASSERT_GE(good, size);
      void* const p = loft_aligned_alloc(alignment, good);
      ASSERT_TRUE(aligned(p, alignment));
      ASSERT_EQ(loft_malloc_usable_size(p), good) << alignment << " " << size;
      loft_free_aligned_sized(p, alignment, good);
    }
  }
}

TEST(GoodSize, OfWhatCannotBe) {
  EXPECT_EQ(loft_good_size(0), loft_good_size(1));
  for (const size_t size : surface::kImpossible) {
    EXPECT_EQ(loft_good_size(size), size);
    EXPECT_EQ(loft_aligned_good_size(64, size), size);
  }
  EXPECT_EQ(loft_aligned_good_size(0, 100), 100u);
  EXPECT_EQ(loft_aligned_good_size(48, 100), 100u);
  EXPECT_GE(loft_good_size(PTRDIFF_MAX), size_t{PTRDIFF_MAX});
}

// ---- Resizing in place -------------------------------------------------------------------------

TEST(Expand, KeepsTheObject) {
  for (const size_t size : some_sizes()) {
    void* const p = loft_malloc(size);
    fill(p, 0, size);
    size_t now = size;
    for (const size_t to : {loft_malloc_usable_size(p), size, size - size / 4, size / 3, size * 2,
                            size + 1, size_t{0}, size}) {
      errno = 4711;
      const int done = loft_expand(p, to);
      ASSERT_EQ(errno, 4711);
      if (done == 0) continue;
      const size_t kept = std::min(now, to);
      now = std::max<size_t>(to, 1);
      ASSERT_TRUE(holds(p, kept)) << size << " to " << to;
      ASSERT_GE(loft_malloc_usable_size(p), now);
      fill(p, kept, now);
    }
    loft_free_sized(p, now);
  }
}

TEST(Expand, UpToTheUsableSize) {
  for (const size_t size : some_sizes()) {
    void* const p = loft_malloc(size);
    EXPECT_EQ(loft_expand(p, loft_malloc_usable_size(p)), 1) << size;
    EXPECT_EQ(loft_expand(p, size), 1) << size;
    loft_free_sized(p, size);
  }
}

TEST(Expand, SmallOnesKeepHalf) {
  void* const p = loft_malloc(1000);
  EXPECT_EQ(loft_expand(p, 900), 1);
  if (!surface::guarded()) {  // where samples have pages of their own
    EXPECT_EQ(loft_expand(p, 100), 0);
    EXPECT_EQ(loft_expand(p, 2000), 0);
  }
  loft_free_sized(p, 900);
}

TEST(Expand, LongOnesShrinkByPages) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t size : {kMiB, 16 * kMiB}) {
    void* const p = loft_malloc(size);
    fill(p, 0, size);
    EXPECT_EQ(loft_expand(p, size / 2), 1);
    EXPECT_TRUE(holds(p, size / 2));
    if (!surface::guarded() && (!surface::hardened() || size > kMiB)) {
      EXPECT_LE(loft_malloc_usable_size(p), size / 2 + page);
    }
    EXPECT_EQ(loft_expand(p, 100), 1);
    EXPECT_TRUE(holds(p, 100));
    loft_free_sized(p, 100);
  }
}

TEST(Expand, LargeOnesGrowIntoFreeMemory) {
  constexpr size_t kSize = 24 * kMiB;
  bool grown = false;
  // What it gave up lies behind it, unless something else has taken some of that.
  for (int i = 0; i < 20 && !grown; ++i) {
    loft_purge(nullptr);
    auto* const p = static_cast<char*>(loft_malloc(kSize));
    fill(p, 0, kSize);
    ASSERT_EQ(loft_expand(p, 8 * kMiB), 1);
    grown = loft_expand(p, kSize - 12345) == 1;
    EXPECT_TRUE(holds(p, 8 * kMiB));
    if (grown) memset(p + 8 * kMiB, 1, kSize - 12345 - 8 * kMiB);
    loft_free_sized(p, grown ? kSize - 12345 : 8 * kMiB);
  }
  EXPECT_TRUE(grown);
}

TEST(Expand, MediumOnesGrowIntoGaps) {
  // Of 16 in a row, those between are freed; whoever lies before a gap can grow.
  std::vector<void*> objects;
  for (int i = 0; i < 64; ++i) objects.push_back(loft_malloc(100'000));
  for (size_t i = 1; i < objects.size(); i += 2) loft_free(objects[i]);
  loft_purge(nullptr);  // out of the cache
  int grown = 0;
  for (size_t i = 0; i < objects.size(); i += 2) grown += loft_expand(objects[i], 180'000);
  EXPECT_GT(grown, 0);
  for (size_t i = 0; i < objects.size(); i += 2) loft_free(objects[i]);
}

TEST(Expand, ObjectsOfAnotherThread) {
  for (const size_t size : {size_t{100}, size_t{100'000}, 8 * kMiB}) {
    void* p = nullptr;
    std::thread([&] { p = loft_malloc(size); }).join();
    EXPECT_EQ(loft_expand(p, loft_malloc_usable_size(p)), 1);
    EXPECT_EQ(loft_expand(p, size - size / 4), 1);
    loft_free_sized(p, size - size / 4);
  }
}

TEST(Expand, Corners) {
  errno = 4711;
  EXPECT_EQ(loft_expand(nullptr, 0), 0);
  EXPECT_EQ(loft_expand(nullptr, 100), 0);
  for (const size_t size : {size_t{1}, size_t{100'000}, 8 * kMiB}) {
    void* const p = loft_malloc(size);
    for (const size_t impossible : surface::kImpossible) {
      EXPECT_EQ(loft_expand(p, opaque(impossible)), 0);
    }
    EXPECT_EQ(loft_expand(p, size_t{1} << 47), 0);
    loft_free_sized(p, size);
  }
  EXPECT_EQ(errno, 4711);
  void* const none = loft_malloc(0);
  loft_expand(none, 0);
  loft_free(none);
}

// A buffer of each iteration is the one of the iteration before. Not with hardened=full, where
// freed memory rests, and seldom not with hardened=guard, where some lie between guards.
TEST(Sizes, ABufferComesBackAtOnce) {
  if (surface::hardened()) return;
  for (const size_t size : {size_t{48} << 10, size_t{600} << 10, size_t{2} << 20}) {
    constexpr int kPairs = 1000;
    int same = 0;
    const void* last = nullptr;
    for (int i = 0; i < kPairs; ++i) {
      void* const p = malloc(size);
      ASSERT_NE(p, nullptr);
      same += p == last ? 1 : 0;
      last = p;
      free(p);
    }
    EXPECT_GT(same, kPairs / 2) << size;
  }
}

// With hardened=guard, some of the first ones lie between guards.
TEST(Expand, ToNoBytes) {
  for (int i = 0; i < 300'000; ++i) {
    void* const p = loft_malloc(1);
    ASSERT_EQ(loft_expand(p, 0), 1);
    loft_free_sized(p, 0);
  }
  for (const size_t size : {size_t{100'000}, 8 * kMiB}) {
    void* const p = loft_malloc(size);
    ASSERT_EQ(loft_expand(p, 0), 1);
    loft_free_sized(p, 0);
  }
}

TEST(Expand, OfSampledObjects) {
  ASSERT_EQ(loft_option_set("sample_bytes", "4096"), 0);
  ASSERT_EQ(loft_option_set("profile", "on"), 0);
  for (int round = 0; round < 2; ++round) {
    for (const size_t size : some_sizes()) {
      void* const p = loft_malloc(size);
      fill(p, 0, size);
      size_t now = size;
      for (const size_t to : {size, size - size / 4, size / 3 + 1, size + size / 2, size}) {
        if (loft_expand(p, to) == 0) continue;
        ASSERT_TRUE(holds(p, std::min(now, to)));
        fill(p, std::min(now, to), to);
        now = to;
      }
      loft_free_sized(p, now);
    }
  }
  EXPECT_EQ(loft_option_set("profile", "off"), 0);
}

// The pages behind one that has shrunk are soon another's.
TEST(Realloc, OfSampledObjectsThatHaveShrunk) {
  ASSERT_EQ(loft_option_set("sample_bytes", "1"), 0);
  ASSERT_EQ(loft_option_set("profile", "on"), 0);
  struct Step {
    size_t size, to, behind;
  };
  for (const Step& step : {Step{kMiB, 600'000, 300'000}, Step{32'000, 17'000, 4000}}) {
    void* p = loft_realloc(loft_malloc(step.size), step.to);
    fill(p, 0, step.to);
    std::vector<void*> others;
    for (int i = 0; i < 16; ++i) {
      others.push_back(loft_malloc(step.behind));
      fill(others.back(), 0, step.behind);
    }
    p = loft_realloc(p, step.size);
    EXPECT_GE(loft_malloc_usable_size(p), step.size);
    EXPECT_TRUE(holds(p, step.to));
    memset(p, 0, step.size);
    for (void* const other : others) {
      EXPECT_TRUE(holds(other, step.behind));
      loft_free(other);
    }
    loft_free(p);
  }
  EXPECT_EQ(loft_option_set("profile", "off"), 0);
}

// ---- Alignment ---------------------------------------------------------------------------------

TEST(AlignedRealloc, KeepsAlignmentAndContents) {
  for (size_t alignment = 8; alignment <= 4 * kMiB; alignment *= 2) {
    void* p = nullptr;
    size_t before = 0;
    for (const size_t size :
         {size_t{1}, size_t{100}, size_t{90}, size_t{5000}, size_t{40'000}, size_t{200'000},
          5 * kMiB, 12 * kMiB, 5 * kMiB, size_t{100'000}, size_t{3000}, size_t{17}}) {
      p = loft_aligned_realloc(p, alignment, size);
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(aligned(p, alignment)) << alignment << " " << size;
      ASSERT_TRUE(holds(p, std::min(before, size))) << alignment << " " << size;
      fill(p, std::min(before, size), size);
      before = size;
    }
    loft_free_aligned_sized(p, alignment, before);
  }
}

TEST(AlignedRealloc, OfObjectsWithoutAlignment) {
  for (const size_t size : {size_t{1}, size_t{500}, size_t{50'000}, 6 * kMiB}) {
    for (int i = 0; i < 10; ++i) {
      void* p = loft_malloc(size);
      fill(p, 0, size);
      p = loft_aligned_realloc(p, 256, size + 10);
      ASSERT_TRUE(aligned(p, 256));
      ASSERT_TRUE(holds(p, size));
      loft_free(p);
    }
  }
}

// Whether the kernel can, and is no emulator, which loft does not let (os::can_move_pages).
bool pages_move() {
  constexpr int kDontUnmap = 4;
  constexpr size_t kBytes = 64 << 10;
  char* const from =
      static_cast<char*>(mmap(nullptr, 2 * kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | kDontUnmap;  // as loft moves them
  const bool moved = mremap(from, kBytes, kBytes, kFlags, from + kBytes) == from + kBytes;
  munmap(from, 2 * kBytes);
  return moved && getauxval(AT_SYSINFO_EHDR) != 0;
}

TEST(AlignedRealloc, LargeOnesMoveTheirPages) {
  if (!pages_move()) GTEST_SKIP() << "the kernel cannot move pages";
  loft_stats_t before = {};
  before.struct_size = sizeof(before);
  ASSERT_EQ(loft_stats(&before), 0);
  void* p = loft_aligned_alloc(4096, 80 * kMiB);
  static_cast<char*>(p)[79 * kMiB] = 7;
  void* const behind = loft_malloc(80 * kMiB);  // in the way, it may be
  p = loft_aligned_realloc(p, 4096, 200 * kMiB);
  EXPECT_EQ(static_cast<char*>(p)[79 * kMiB], 7);
  loft_stats_t after = {};
  after.struct_size = sizeof(after);
  ASSERT_EQ(loft_stats(&after), 0);
  EXPECT_GT(after.large_resizes, before.large_resizes);
  loft_free(p);
  loft_free(behind);
}

TEST(AlignedRealloc, Corners) {
  errno = 0;
  EXPECT_EQ(loft_aligned_realloc(nullptr, opaque(size_t{48}), 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* p = loft_aligned_realloc(nullptr, 64, 0);
  EXPECT_TRUE(aligned(p, 64));
  EXPECT_EQ(loft_aligned_realloc(p, 64, 0), nullptr);
  p = loft_aligned_alloc(64, 100);
  fill(p, 0, 100);
  for (const size_t impossible : surface::kImpossible) {
    errno = 0;
    EXPECT_EQ(loft_aligned_realloc(p, 64, opaque(impossible)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  errno = 0;
  EXPECT_EQ(loft_aligned_realloc(p, opaque(size_t{0}), 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_TRUE(holds(p, 100));
  loft_free(p);
}

TEST(AlignedCalloc, IsZeroAndAligned) {
  for (int round = 0; round < 3; ++round) {
    for (size_t alignment = 1; alignment <= 2 * kMiB; alignment *= 8) {
      for (const size_t size :
           {size_t{1}, size_t{100}, size_t{4097}, size_t{20'000}, size_t{100'000}, 5 * kMiB}) {
        void* const p = loft_aligned_calloc(alignment, 1, size);
        ASSERT_TRUE(aligned(p, alignment));
        ASSERT_TRUE(is_zero(p, size)) << alignment << " " << size;
        memset(p, 0xee, size);
        loft_free_aligned_sized(p, alignment, size);
      }
    }
  }
}

TEST(AlignedCalloc, Corners) {
  errno = 0;
  EXPECT_EQ(loft_aligned_calloc(64, opaque(SIZE_MAX), 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(loft_aligned_calloc(opaque(size_t{3}), 1, 2), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* const p = loft_aligned_calloc(64, 0, 10);
  EXPECT_TRUE(aligned(p, 64));
  loft_free(p);
}

// Pages that nobody has touched are not cleared: the program would have them at once.
TEST(AlignedCalloc, TakesFreshPagesAsTheyAre) {
  loft_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  constexpr size_t kSize = size_t{512} << 20;
  rusage before = {};
  rusage after = {};
  getrusage(RUSAGE_SELF, &before);
  void* const p = loft_aligned_calloc(1 << 16, 1, kSize);
  getrusage(RUSAGE_SELF, &after);
  ASSERT_NE(p, nullptr);
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 50'000);  // 131072 pages of 4 KiB
  loft_free(p);
}

// ---- Without memory ----------------------------------------------------------------------------

TEST(Sizes, UnderALimit) {
  void* const p = loft_aligned_alloc(128, 8 * kMiB);
  fill(p, 0, 8 * kMiB);
  void* const q = loft_malloc(100'000);
  ASSERT_EQ(loft_option_set("hard_limit", "64M"), 0);
  errno = 0;
  EXPECT_EQ(loft_aligned_realloc(p, 128, 300 * kMiB), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(loft_expand(p, 300 * kMiB), 0);
  EXPECT_EQ(loft_expand(q, 300 * kMiB), 0);
  errno = 0;
  EXPECT_EQ(loft_aligned_calloc(128, 300, kMiB), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_TRUE(holds(p, 8 * kMiB));
  EXPECT_EQ(loft_option_set("hard_limit", "0"), 0);
  loft_free(p);
  loft_free(q);
}

// Some of them are samples of hardened=guard, whose usable size is 0, as all are of hardened=full.
TEST(AlignedRealloc, OfObjectsOfNoBytes) {
  for (int i = 0; i < 100'000; ++i) {
    void* const p = loft_aligned_realloc(loft_malloc(0), 64, 10);
    ASSERT_TRUE(p != nullptr && aligned(p, 64));
    loft_free(p);
  }
}

// ---- Sized frees -------------------------------------------------------------------------------

TEST(SizedFree, AfterARealloc) {
  for (const size_t size : some_sizes()) {
    for (const size_t to : {size / 2 + 1, size, size + size / 5}) {
      void* const p = loft_realloc(loft_malloc(size), to);
      loft_free_sized(p, to);
      void* const q = loft_aligned_realloc(loft_aligned_alloc(64, size), 64, to);
      loft_free_aligned_sized(q, 64, to);
    }
  }
  loft_free_sized(nullptr, 100);
  loft_free_aligned_sized(nullptr, 64, 100);
}

// A size that does not fit: reported by either hardened mode, taken as it is otherwise.
struct Wrong {
  size_t size;
  size_t freed;
};

class SizedFreeDeath : public testing::TestWithParam<Wrong> {};

TEST_P(SizedFreeDeath, OfAWrongSize) {
  const auto [size, freed] = GetParam();
  if (!surface::hardened() && !surface::guarded()) {
    loft_free_sized(loft_malloc(size), freed);
    loft_free_aligned_sized(loft_aligned_alloc(64, size), 64, freed);
    return;
  }
  EXPECT_DEATH(loft_free_sized(loft_malloc(size), freed), "free_sized of 0x");
  EXPECT_DEATH(loft_free_aligned_sized(loft_aligned_alloc(64, size), 64, freed), "sized of 0x");
}

INSTANTIATE_TEST_SUITE_P(Sizes, SizedFreeDeath,
                         testing::Values(Wrong{1000, 100}, Wrong{1000, 5000}, Wrong{100, 0},
                                         Wrong{100'000, 50'000}, Wrong{100'000, 100'001},
                                         Wrong{100'000, 99'999}, Wrong{8 * kMiB - 5, 8 * kMiB - 6},
                                         Wrong{8 * kMiB, 10}, Wrong{100, 100'000}));

// Who asks for a good size need not remember it.
TEST(SizedFree, OfASizeWhoseGoodSizeWasRequested) {
  for (const size_t size : some_sizes()) {
    const size_t good = loft_good_size(size);
    loft_free_sized(loft_malloc(good), size);
    loft_free_sized(loft_malloc(good), size + (good - size) / 2);
    const size_t wide = loft_aligned_good_size(256, size);
    loft_free_aligned_sized(loft_aligned_alloc(256, wide), 256, size);
  }
  // Some of them are samples of hardened=guard.
  for (int i = 0; i < 100'000; ++i) loft_free_sized(loft_malloc(loft_good_size(50)), 50);
}

// With misuse=continue the program goes on, whatever else is wrong.
TEST(SizedFree, OfAForeignObject) {
  alignas(64) static char local[128];
  ASSERT_EQ(loft_option_set("misuse", "continue"), 0);
  testing::internal::CaptureStderr();
  loft_free_sized(opaque(local + 0), 10);
  loft_free_aligned_sized(opaque(local + 16), 64, 10);
  loft_free_aligned_sized(opaque(local + 16), opaque(size_t{0}), 10);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 3) << told;
  EXPECT_EQ(loft_option_set("misuse", "stop"), 0);
}

TEST(SizedFreeDeath, OfAWrongAlignment) {
  void* const p = loft_malloc(1000);
  const size_t too_much = size_t{2} << (__builtin_ctzll(reinterpret_cast<uintptr_t>(p)));
  EXPECT_DEATH(loft_free_aligned_sized(p, too_much, 1000), "as an object aligned to");
  EXPECT_DEATH(loft_free_aligned_sized(p, 3, 1000), "as an object aligned to 3 bytes");
  loft_free(p);
}

// A profile looks no closer than loft does without.
TEST(SizedFree, OfAWrongAlignmentInAProfile) {
  if (surface::hardened() || surface::guarded()) return;
  ASSERT_EQ(loft_option_set("profile", "on"), 0);
  void* const p = loft_malloc(1000);
  const size_t too_much = size_t{2} << (__builtin_ctzll(reinterpret_cast<uintptr_t>(p)));
  loft_free_aligned_sized(p, too_much, 1000);
  EXPECT_EQ(loft_option_set("profile", "off"), 0);
}

TEST(ExpandDeath, Misuse) {
  int local = 0;
  EXPECT_DEATH(loft_expand(&local, 10), "loft_expand");
  EXPECT_DEATH(opaque(loft_aligned_realloc(&local, 64, 10)), "loft_aligned_realloc");
  auto* const p = static_cast<char*>(loft_malloc(100'000));
  EXPECT_DEATH(loft_expand(p + 4096, 10), "loft_expand");
  EXPECT_DEATH(opaque(loft_aligned_realloc(p + 16, 64, 10)), "loft_aligned_realloc");
  loft_free(p);
}

// ---- Heaps -------------------------------------------------------------------------------------

class HeapSizes : public testing::TestWithParam<bool> {
 protected:
  HeapSizes() {
    if (GetParam()) {
      region_.resize(64 * kMiB);
      heap_ = loft_heap_create_over(region_.data(), region_.size());
    } else {
      heap_ = loft_heap_create();
    }
  }
  ~HeapSizes() override { loft_heap_destroy(heap_); }

  std::vector<char> region_;
  loft_heap_t* heap_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Kinds, HeapSizes, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "Region" : "Memory");
});

TEST_P(HeapSizes, GoodSize) {
  for (const size_t size : some_sizes()) {
    const size_t good = loft_heap_good_size(heap_, size);
    ASSERT_GE(good, size);
    ASSERT_EQ(loft_heap_good_size(heap_, good), good);
    void* const p = loft_heap_malloc(heap_, size);
    ASSERT_NE(p, nullptr);
    ASSERT_EQ(loft_heap_usable_size(heap_, p), good) << size;
    loft_heap_free_sized(heap_, p, size);
  }
  EXPECT_EQ(loft_heap_good_size(heap_, 0), loft_heap_good_size(heap_, 1));
  EXPECT_EQ(loft_heap_good_size(heap_, SIZE_MAX), SIZE_MAX);
}

TEST_P(HeapSizes, Expand) {
  EXPECT_EQ(loft_heap_expand(heap_, nullptr, 10), 0);
  for (const size_t size : some_sizes()) {
    void* const p = loft_heap_malloc(heap_, size);
    ASSERT_NE(p, nullptr);
    fill(p, 0, size);
    size_t now = size;
    for (const size_t to : {size, size - size / 4, size / 3 + 1, size, size * 2}) {
      if (loft_heap_expand(heap_, p, to) == 0) continue;
      ASSERT_TRUE(holds(p, std::min(now, to)));
      fill(p, std::min(now, to), to);
      now = to;
      ASSERT_GE(loft_heap_usable_size(heap_, p), to);
    }
    EXPECT_EQ(loft_heap_expand(heap_, p, opaque(SIZE_MAX)), 0);
    loft_heap_free_sized(heap_, p, now);
  }
}

// Of regions, loft_heap_ functions alone accept objects.
TEST(HeapSizesOfMemory, ExpandByTheOrdinaryName) {
  loft_heap_t* const heap = loft_heap_create();
  void* const p = loft_heap_malloc(heap, 100'000);
  EXPECT_EQ(loft_expand(p, 50'000), 1);
  void* const q = loft_aligned_realloc(p, 4096, 200'000);
  EXPECT_TRUE(aligned(q, 4096));
  EXPECT_TRUE(loft_heap_contains(heap, q));
  loft_heap_free(heap, q);
  loft_heap_destroy(heap);
}

TEST_P(HeapSizes, AlignedReallocAndCalloc) {
  for (size_t alignment = 8; alignment <= kMiB; alignment *= 4) {
    void* p = nullptr;
    size_t before = 0;
    for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{200'000}, size_t{80}}) {
      p = loft_heap_aligned_realloc(heap_, p, alignment, size);
      ASSERT_TRUE(p != nullptr && aligned(p, alignment));
      ASSERT_TRUE(holds(p, std::min(before, size)));
      fill(p, std::min(before, size), size);
      before = size;
    }
    EXPECT_EQ(loft_heap_aligned_realloc(heap_, p, alignment, 0), nullptr);
    void* const zero = loft_heap_aligned_calloc(heap_, alignment, 10, 1000);
    ASSERT_TRUE(zero != nullptr && aligned(zero, alignment) && is_zero(zero, 10'000));
    memset(zero, 1, 10'000);
    loft_heap_free(heap_, zero);
  }
  errno = 0;
  EXPECT_EQ(loft_heap_aligned_calloc(heap_, opaque(size_t{3}), 1, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(loft_heap_aligned_realloc(heap_, nullptr, opaque(size_t{0}), 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(loft_heap_aligned_calloc(heap_, 64, opaque(SIZE_MAX), 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_P(HeapSizes, SizedFree) {
  loft_heap_free_sized(heap_, nullptr, 10);
  void* const p = loft_heap_malloc(heap_, 1000);
  if (surface::hardened() || surface::guarded()) {
    EXPECT_DEATH(loft_heap_free_sized(heap_, p, 2000), "loft_heap_free_sized of 0x");
  }
  loft_heap_free_sized(heap_, p, 1000);
  void* const q = loft_heap_aligned_alloc(heap_, 4096, 24);
  loft_heap_free_sized(heap_, q, 24);
}

}  // namespace
