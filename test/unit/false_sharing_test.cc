// No two threads write one cache line because of loft: the patterns of cache-scratch (an object
// that one thread allocated is freed by another, which allocates again) and cache-thrash (threads
// allocate at the same time), looked at as addresses.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "malloc/allocate.h"

namespace {

constexpr uintptr_t kLine = 64;
// The first thread is never young (runtime/youth.h), the second is for as many calls as it makes.
constexpr int kFew = 100;
constexpr int kMany = 2000;

void add_lines(std::set<uintptr_t>& lines, const void* p, size_t size) {
  const auto first = reinterpret_cast<uintptr_t>(p);
  for (uintptr_t line = first / kLine; line <= (first + size - 1) / kLine; ++line) {
    lines.insert(line);
  }
}

std::vector<void*> allocate_many(size_t size, int count) {
  std::vector<void*> objects;
  for (int i = 0; i < count; ++i) objects.push_back(loft::allocate(size));
  return objects;
}

void release(const std::vector<void*>& objects) {
  for (void* p : objects) loft::deallocate(p);
}

class FalseSharingTest : public testing::TestWithParam<std::tuple<size_t, int>> {};

TEST_P(FalseSharingTest, NotAfterAnotherThreadsObjectWasFreed) {
  const auto [size, objects] = GetParam();
  std::vector<void*> mine = allocate_many(size, objects);
  std::set<uintptr_t> my_lines;
  for (const void* p : mine) add_lines(my_lines, p, size);
  std::thread([&, size = size, objects = objects] {
    // As cache-scratch: the thread frees what it was given, then allocates and writes its own.
    for (int i = 0; i < objects / 2; ++i) loft::deallocate(mine[static_cast<size_t>(i)]);
    const std::vector<void*> own = allocate_many(size, objects);
    for (const void* p : own) {
      std::set<uintptr_t> lines;
      add_lines(lines, p, size);
      for (const uintptr_t line : lines) EXPECT_EQ(my_lines.count(line), 0u) << p;
    }
    release(own);
  }).join();
  mine.erase(mine.begin(), mine.begin() + objects / 2);
  release(mine);
}

TEST_P(FalseSharingTest, NotBetweenThreadsThatAllocateAtTheSameTime) {
  const auto [size, objects] = GetParam();
  std::vector<void*> first = allocate_many(size, objects);
  std::vector<void*> second;
  std::thread([&, size = size, objects = objects] {
    second = allocate_many(size, objects);
    std::set<uintptr_t> lines;
    for (const void* p : first) add_lines(lines, p, size);
    for (const void* p : second) {
      std::set<uintptr_t> its_lines;
      add_lines(its_lines, p, size);
      for (const uintptr_t line : its_lines) EXPECT_EQ(lines.count(line), 0u) << p;
    }
  }).join();
  release(first);
  release(second);
}

TEST(FalseSharing, NotBetweenTwoYoungThreads) {
  loft::deallocate(loft::allocate(16));  // so that neither of them is the first
  for (size_t size = 1; size <= 400; size += 9) {
    std::vector<void*> of[2];
    for (int round = 0; round < 4; ++round) {
      for (std::vector<void*>& mine : of) {
        std::thread([&] {
          release(mine);
          mine = allocate_many(size, kFew);
        }).join();
      }
    }
    std::set<uintptr_t> lines;
    for (const void* p : of[0]) add_lines(lines, p, size);
    for (const void* p : of[1]) {
      std::set<uintptr_t> its_lines;
      add_lines(its_lines, p, size);
      for (const uintptr_t line : its_lines) EXPECT_EQ(lines.count(line), 0u) << p;
    }
    for (const std::vector<void*>& mine : of) release(mine);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, FalseSharingTest,
                         testing::Combine(testing::Values(1, 8, 16, 24, 48, 80, 112, 160),
                                          testing::Values(kFew, kMany)));

}  // namespace
