// Objects of a gigabyte and more, of which a program touches little.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loft/loft.h"
#include "surface/heap_stats.h"
#include "surface/support.h"

namespace {

using surface::kMiB;
using surface::opaque;
using surface::stats;

constexpr size_t kGiB = size_t{1} << 30;

// Whether the system gives a program so much, as malloc of the C library asks for it.
bool system_grants(size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p != MAP_FAILED && munmap(p, bytes) == 0;
}

class Huge : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    if (!system_grants(3 * kGiB)) GTEST_SKIP() << "the system grants little memory";
  }
};

TEST_F(Huge, IsFoundFromAnywhereInIt) {
  auto* const p = static_cast<char*>(malloc(kGiB + 5));
  ASSERT_NE(p, nullptr);
  auto* const q = static_cast<char*>(malloc(2 * kGiB));
  ASSERT_NE(q, nullptr);
  for (const size_t at : {size_t{0}, size_t{1}, 5 * kMiB, kGiB / 2 + 7, kGiB - 1, kGiB + 4}) {
    EXPECT_EQ(loft_object_start(p + at), p) << at;
    EXPECT_EQ(loft_object_start(q + at), q) << at;
    EXPECT_EQ(loft_object_size(p + at), malloc_usable_size(p)) << at;
  }
  EXPECT_GE(malloc_usable_size(p), kGiB + 5);
  loft_check_bounds("test", p + kGiB / 2, kGiB / 2);
  EXPECT_DEATH(loft_check_bounds("test", p + kGiB / 2, kGiB), "into an object of");
  free(p);
  EXPECT_EQ(loft_object_start(p + kGiB / 2), nullptr);
  EXPECT_EQ(loft_object_start(q + kGiB), q);
  free(q);
  EXPECT_EQ(loft_object_start(q + kGiB), nullptr);
}

TEST_F(Huge, AnInteriorPointerIsReported) {
  auto* const p = static_cast<char*>(malloc(2 * kGiB));
  ASSERT_NE(p, nullptr);
  for (const size_t at : {size_t{16}, size_t{64} << 10, kGiB, 2 * kGiB - 16}) {
    EXPECT_DEATH(free(opaque(p + at)), "free of an interior pointer");
    EXPECT_DEATH(opaque(realloc(opaque(p + at), 100)), "realloc of an interior pointer");
    EXPECT_DEATH(opaque(malloc_usable_size(p + at)), "malloc_usable_size of an interior pointer");
  }
  EXPECT_DEATH(free(opaque(p + kGiB + 1)), "free of a misaligned pointer");
  free(p);
  EXPECT_DEATH(free(opaque(p + kGiB)), "free of a pointer to memory that is not allocated");
}

TEST_F(Huge, ReallocKeepsWhatItHolds) {
  if (surface::hardened()) return;  // where it copies all of them
  auto* p = static_cast<char*>(malloc(700 * kMiB));
  ASSERT_NE(p, nullptr);
  strcpy(p, "first");
  strcpy(p + 600 * kMiB, "last");
  for (const size_t bytes : {kGiB, 2 * kGiB + 1, kGiB + kMiB, 900 * kMiB, 3 * kGiB, 610 * kMiB}) {
    auto* const wall = static_cast<char*>(malloc(5 * kMiB));
    p = static_cast<char*>(realloc(p, bytes));
    ASSERT_NE(p, nullptr);
    EXPECT_STREQ(p, "first");
    EXPECT_STREQ(p + 600 * kMiB, "last");
    EXPECT_EQ(loft_object_start(p + 601 * kMiB), p);
    EXPECT_EQ(loft_object_start(p + bytes - 1), p);
    free(wall);
  }
  free(p);
}

TEST_F(Huge, CountsAndIsVisited) {
  const loft_stats_t before = stats();
  auto* const p = static_cast<char*>(calloc(3, kGiB));
  ASSERT_NE(p, nullptr);
  p[kGiB] = 1;
  const loft_stats_t with = stats();
  EXPECT_EQ(with.live_bytes, before.live_bytes + 3 * kGiB);
  EXPECT_LE(with.resident_bytes, before.resident_bytes + 256 * 1024);
  EXPECT_LE(with.metadata_resident_bytes, before.metadata_resident_bytes + 64 * 1024);
  struct Seen {
    const void* object;
    size_t bytes;
  } seen = {p, 0};
  const auto note = [](void* context, void* object, size_t bytes) {
    auto* const its = static_cast<Seen*>(context);
    if (object == its->object) its->bytes += bytes;
    return 0;
  };
  loft_visit_objects(note, &seen);
  EXPECT_EQ(seen.bytes, malloc_usable_size(p));
  free(p);
  EXPECT_LE(stats().metadata_resident_bytes, before.metadata_resident_bytes + 64 * 1024);
}

TEST_F(Huge, TheChildOfAForkHasIt) {
  auto* const p = static_cast<char*>(malloc(kGiB));
  ASSERT_NE(p, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const bool right = loft_object_start(p + kGiB / 2) == p;
    free(p);
    _exit(right && loft_object_start(p + kGiB / 2) == nullptr ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  free(p);
}

// A size beyond all memory, as a damaged file's header has it, is answered as by the C library.
TEST_F(Huge, WhatTheSystemDoesNotGrantIsRefused) {
  if (system_grants(16 * 1024 * kGiB)) GTEST_SKIP() << "the system grants everything";
  const uint64_t tables = stats().metadata_resident_bytes;
  void* const p = malloc(kGiB);
  for (size_t bytes = 16 * kGiB; bytes <= 16 * 1024 * kGiB; bytes *= 2) {
    const bool granted = system_grants(bytes);
    errno = 0;
    void* const q = opaque(malloc(opaque(bytes)));
    EXPECT_EQ(q != nullptr, granted) << bytes;
    EXPECT_EQ(errno, granted ? 0 : ENOMEM) << bytes;
    free(q);
    if (granted) continue;
    EXPECT_EQ(opaque(calloc(opaque(bytes), 1)), nullptr);
    EXPECT_EQ(opaque(aligned_alloc(1 << 20, opaque(bytes))), nullptr);
    EXPECT_EQ(opaque(realloc(p, opaque(bytes))), nullptr);
  }
  EXPECT_LE(stats().metadata_resident_bytes, tables + 16 * getauxval(AT_PAGESZ));
  free(p);
}

}  // namespace
