// The loft_ names: same semantics as libc's, same heap; objects from interior pointers; statistics,
// options, version.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vector>

#include "loft/loft.h"
#include "surface/support.h"

namespace {

using surface::aligned;
using surface::opaque;

TEST(LoftNames, ShareOneHeapWithLibcs) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1000}, size_t{50'000}, size_t{3'000'000}}) {
    free(loft_malloc(size));
    loft_free(malloc(size));
    void* p = malloc(size);
    EXPECT_EQ(loft_malloc_usable_size(p), malloc_usable_size(p));
    p = loft_realloc(p, size + 100);
    p = realloc(p, size + 1000);
    loft_free_sized(p, size + 1000);
    if (surface::hardened() || surface::guarded())
      continue;  // which stop a program that mixes these
    ::operator delete(loft_malloc(size));
    loft_free(::operator new(size));
  }
}

TEST(LoftNames, Corners) {
  errno = 0;
  EXPECT_EQ(loft_malloc(opaque(SIZE_MAX)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(loft_calloc(opaque(SIZE_MAX), 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(loft_aligned_alloc(opaque(size_t{3}), 8), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* p = &errno;
  EXPECT_EQ(loft_posix_memalign(&p, opaque(size_t{4}), 8), EINVAL);
  EXPECT_EQ(p, &errno);
  EXPECT_EQ(loft_posix_memalign(&p, 512, 8), 0);
  EXPECT_TRUE(aligned(p, 512));
  loft_free_aligned_sized(p, 512, 8);
  p = loft_memalign(opaque(size_t{100}), 8);
  EXPECT_TRUE(aligned(p, 128));
  p = loft_reallocarray(p, 10, 10);
  EXPECT_GE(loft_malloc_usable_size(p), 100u);
  EXPECT_EQ(loft_reallocarray(p, opaque(SIZE_MAX), 10), nullptr);
  EXPECT_EQ(loft_realloc(p, 0), nullptr);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  p = loft_valloc(1);
  EXPECT_TRUE(aligned(p, page));
  loft_free(p);
  p = loft_pvalloc(0);
  EXPECT_TRUE(aligned(p, page));
  EXPECT_GE(loft_malloc_usable_size(p), page);
  loft_free(p);
  loft_free(nullptr);
}

TEST(LoftNames, Version) { EXPECT_EQ(loft_version(), LOFT_VERSION); }

// ---- Objects from interior pointers
// --------------------------------------------------------------

void expect_object(const char* start, size_t asked) {
  const size_t size = loft_object_size(start);
  EXPECT_GE(size, asked);
  EXPECT_EQ(size, malloc_usable_size(const_cast<char*>(start)));
  for (const size_t at : {size_t{0}, size_t{1}, asked / 3, asked / 2, asked - 1, size - 1}) {
    ASSERT_EQ(loft_object_start(start + at), start) << at << " of " << asked;
    ASSERT_EQ(loft_object_size(start + at), size) << at << " of " << asked;
  }
}

TEST(Object, SmallOnes) {
  std::vector<char*> objects;
  for (size_t size = 1; size < 4000; size += size < 300 ? 1 : 37) {
    objects.push_back(static_cast<char*>(malloc(size)));
    expect_object(objects.back(), size);
  }
  for (char* p : objects) free(p);
}

TEST(Object, MediumAndLargeOnes) {
  for (size_t size = 4000; size < (size_t{64} << 20); size += size / 3) {
    auto* p = static_cast<char*>(malloc(size));
    ASSERT_NE(p, nullptr);
    expect_object(p, size);
    free(p);
  }
}

TEST(Object, AlignedOnes) {
  for (size_t alignment = 32; alignment <= (size_t{1} << 21); alignment *= 2) {
    auto* p = static_cast<char*>(aligned_alloc(alignment, 5000));
    ASSERT_NE(p, nullptr);
    expect_object(p, 5000);
    free(p);
  }
}

TEST(Object, NotOurs) {
  int local = 0;
  static int variable = 0;
  const void* const foreign[] = {nullptr,
                                 &local,
                                 &variable,
                                 &errno,
                                 "text",
                                 reinterpret_cast<const void*>(uintptr_t{1}),
                                 reinterpret_cast<const void*>(~uintptr_t{0})};
  for (const void* p : foreign) {
    EXPECT_EQ(loft_object_start(p), nullptr) << p;
    EXPECT_EQ(loft_object_size(p), 0u) << p;
  }
}

// ---- Statistics
// ------------------------------------------------------------------------------------

loft_stats_t stats_now() {
  loft_stats_t stats = {};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(loft_stats(&stats), 0);
  EXPECT_EQ(stats.struct_size, sizeof(stats));
  return stats;
}

TEST(Stats, FollowAllocation) {
  const loft_stats_t before = stats_now();
  std::vector<void*> objects;
  for (int i = 0; i < 100'000; ++i) objects.push_back(malloc(100));
  const loft_stats_t during = stats_now();
  EXPECT_GE(during.allocated_bytes, before.allocated_bytes + 100'000 * 100);
  EXPECT_GE(during.slab_bytes, 100'000u * 100);
  EXPECT_GE(during.committed_bytes, during.slab_bytes);
  EXPECT_GT(during.slabs_created, before.slabs_created);
  EXPECT_GT(during.refills, before.refills);
  EXPECT_GE(during.heaps, 1u);
  EXPECT_GE(during.threads_attached + during.cores, 1u);
  EXPECT_GE(during.threads_started, during.threads_exited);
  for (void* p : objects) free(p);
  const loft_stats_t after = stats_now();
  EXPECT_GT(after.flushes, before.flushes);
  EXPECT_LT(after.allocated_bytes, during.allocated_bytes);
}

TEST(Stats, FollowLargeObjects) {
  constexpr size_t kSize = size_t{100} << 20;
  const loft_stats_t before = stats_now();
  void* p = malloc(opaque(kSize));
  const loft_stats_t during = stats_now();
  EXPECT_GE(during.large_bytes, before.large_bytes + kSize);
  EXPECT_GT(during.large_allocations, before.large_allocations);
  free(p);
  EXPECT_LT(stats_now().large_bytes, during.large_bytes);
}

TEST(Stats, StructsOfOtherVersions) {
  EXPECT_NE(stats_now().heaps, 0u);
  // An older program: the library writes no further than told.
  loft_stats_t older = {};
  older.struct_size = 2 * sizeof(uint64_t);
  older.heaps_parked = 4711;
  EXPECT_EQ(loft_stats(&older), 0);
  EXPECT_EQ(older.struct_size, 2 * sizeof(uint64_t));
  EXPECT_GT(older.heaps, 0u);
  EXPECT_EQ(older.heaps_parked, 4711u);
  // A newer one learns what it did not get.
  struct {
    loft_stats_t known;
    uint64_t unknown;
  } newer = {{}, 4711};
  newer.known.struct_size = sizeof(newer);
  EXPECT_EQ(loft_stats(&newer.known), 0);
  EXPECT_EQ(newer.known.struct_size, sizeof(loft_stats_t));
  EXPECT_EQ(newer.unknown, 4711u);
  // And a caller who forgot to set it.
  loft_stats_t forgotten = {};
  EXPECT_EQ(loft_stats(&forgotten), EINVAL);
}

// ---- Options
// -----------------------------------------------------------------------------------------

TEST(Options, SetAndGet) {
  char text[32];
  EXPECT_EQ(loft_option_set("cache_bytes", "3M"), 0);
  EXPECT_EQ(loft_option_get("cache_bytes", text, sizeof(text)), 0);
  EXPECT_STREQ(text, "3145728");
  EXPECT_EQ(loft_option_set("cache_bytes", "much"), EINVAL);
  EXPECT_EQ(loft_option_set("no_such_option", "1"), ENOENT);
  EXPECT_EQ(loft_option_get("no_such_option", text, sizeof(text)), ENOENT);
  EXPECT_EQ(loft_option_get("cache_bytes", text, 4), ERANGE);
  EXPECT_EQ(loft_option_get("cache_bytes", text, sizeof("3145728")), 0);
  EXPECT_EQ(loft_option_set("cache_bytes", "4M"), 0);
}

}  // namespace
