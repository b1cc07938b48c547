// A kernel that refuses to move pages: for want of mappings, or because it knows no move which
// leaves its source mapped. Large objects are copied, and asking for the move costs no memory; nor
// addresses, if it will never be granted.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "calls.h"
#include "heap/large.h"
#include "loft/loft.h"
#include "space/pagemap.h"
#include "space/window.h"

void* CALL_MMAP(__wrap_)(void* at, size_t bytes, int protection, int flags) {
  return CALL_MMAP(__real_)(at, bytes, protection, flags);
}
int CALL_MUNMAP(__wrap_)(void* at, size_t bytes) { return CALL_MUNMAP(__real_)(at, bytes); }

// As where the program has locked its memory.
static bool locked = false;
int CALL_MADVISE(__wrap_)(void* at, size_t bytes, int advice) {
  if (!locked) return CALL_MADVISE(__real_)(at, bytes, advice);
  errno = EINVAL;
  return -1;
}

static int asked = 0;
static int answer = ENOMEM;
static bool unmaps = false;
void* CALL_MREMAP(__wrap_)(void*, size_t, size_t bytes, int, void* to) {
  ++asked;
  if (unmaps) CALL_MUNMAP(__real_)(to, bytes);
  errno = answer;
  return MAP_FAILED;
}

namespace {

constexpr size_t kMegabyte = 1 << 20;
// Shorter ones lie in medium runs, and are copied.
constexpr size_t kLong = 5 * kMegabyte;
constexpr size_t kLonger = 8 * kMegabyte;

// Objects of which the last lies directly behind `object`, mostly: it cannot grow in place.
std::vector<void*> in_the_way_of(const char* object) {
  std::vector<void*> all;
  do {
    all.push_back(loft_malloc(kLong));
  } while (all.back() != object + kLong && all.size() < 8);
  return all;
}
void free_all(const std::vector<void*>& all) {
  for (void* p : all) loft_free(p);
}

// Of the window alone: what a sanitizer keeps beside it does not count.
size_t resident() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = loft::window.heap.committed - loft::window.heap.base;
  std::vector<unsigned char> pages(bytes / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(loft::window.heap.base), bytes, pages.data()), 0);
  return page * static_cast<size_t>(std::count_if(pages.begin(), pages.end(),
                                                  [](unsigned char in) { return (in & 1) != 0; }));
}

// The kernel drops what is at the target before it finds that it cannot move.
TEST(RefusedMove, WhatStaysBehindTheTargetIsNotTakenToBeZero) {
  answer = ENOMEM;
  auto* room = static_cast<char*>(loft_malloc(40 * kMegabyte));
  std::memset(room, 1, 40 * kMegabyte);
  loft_free(room);
  auto* object = static_cast<char*>(loft_malloc(kLong));
  const std::vector<void*> in_the_way = in_the_way_of(object);
  ASSERT_GE(object, room);
  ASSERT_LT(object, room + 40 * kMegabyte);
  asked = 0;
  locked = unmaps = true;
  EXPECT_EQ(loft::large::resize(loft::large::at(loft::pagemap.of(object)), kLonger), nullptr);
  locked = unmaps = false;
  ASSERT_EQ(asked, 1);
  for (size_t bytes : {kLonger, kLong + kMegabyte, kLong}) {
    auto* zeros = static_cast<char*>(loft_calloc(1, bytes));
    ASSERT_NE(zeros, nullptr);
    EXPECT_EQ(std::count(zeros, zeros + bytes, 0), static_cast<ptrdiff_t>(bytes));
  }
  loft_free(object);
  free_all(in_the_way);
}

TEST(RefusedMove, ObjectsAreCopiedAndNoMemoryIsLost) {
  answer = ENOMEM;
  asked = 0;
  const size_t before = resident();
  for (int i = 0; i < 100; ++i) {
    auto* object = static_cast<char*>(loft_malloc(kLong));
    const std::vector<void*> in_the_way = in_the_way_of(object);
    std::memset(object, i, kLong);
    object = static_cast<char*>(loft_realloc(object, kLonger));
    ASSERT_NE(object, nullptr);
    std::memset(object + kLong, i, kLonger - kLong);
    ASSERT_EQ(object[kLong - 1], static_cast<char>(i));
    loft_free(object);
    free_all(in_the_way);
  }
  EXPECT_GE(asked, 1);
  EXPECT_LT(resident(), before + 64 * kMegabyte);
}

TEST(UnknownMove, ObjectsAreCopiedAndNoAddressSpaceIsLost) {
  answer = EINVAL;
  asked = 0;
  auto* const highest = static_cast<char*>(loft_malloc(128 * kMegabyte));
  loft_free(highest);
  for (int i = 0; i < 200; ++i) {
    auto* object = static_cast<char*>(loft_malloc(kLong));
    const std::vector<void*> in_the_way = in_the_way_of(object);
    std::memset(object, i, kLong);
    object = static_cast<char*>(loft_realloc(object, kLonger));
    ASSERT_NE(object, nullptr);
    ASSERT_EQ(object[0], static_cast<char>(i));
    ASSERT_EQ(object[kLong - 1], static_cast<char>(i));
    // All of it fits into what was there before.
    ASSERT_LT(object, highest + 128 * kMegabyte);
    loft_free(object);
    free_all(in_the_way);
  }
  EXPECT_EQ(asked, 1);
}

}  // namespace
