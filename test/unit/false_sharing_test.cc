// No two threads write one cache line because of loft: the patterns of cache-scratch (an object
// that one thread allocated is freed by another, which allocates again) and cache-thrash (threads
// allocate at the same time), looked at as addresses.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "malloc/allocate.h"

namespace {

constexpr uintptr_t kLine = 64;
constexpr int kObjects = 2000;

void add_lines(std::set<uintptr_t>& lines, const void* p, size_t size) {
  const auto first = reinterpret_cast<uintptr_t>(p);
  for (uintptr_t line = first / kLine; line <= (first + size - 1) / kLine; ++line) {
    lines.insert(line);
  }
}

std::vector<void*> allocate_many(size_t size) {
  std::vector<void*> objects;
  for (int i = 0; i < kObjects; ++i) objects.push_back(loft::allocate(size));
  return objects;
}

void release(const std::vector<void*>& objects) {
  for (void* p : objects) loft::deallocate(p);
}

class FalseSharing : public testing::TestWithParam<size_t> {};

TEST_P(FalseSharing, NotAfterAnotherThreadsObjectWasFreed) {
  const size_t size = GetParam();
  std::vector<void*> mine = allocate_many(size);
  std::set<uintptr_t> my_lines;
  for (const void* p : mine) add_lines(my_lines, p, size);
  std::thread([&] {
    // As cache-scratch: the thread frees what it was given, then allocates and writes its own.
    for (int i = 0; i < kObjects / 2; ++i) loft::deallocate(mine[static_cast<size_t>(i)]);
    const std::vector<void*> own = allocate_many(size);
    for (const void* p : own) {
      std::set<uintptr_t> lines;
      add_lines(lines, p, size);
      for (const uintptr_t line : lines) EXPECT_EQ(my_lines.count(line), 0u) << p;
    }
    release(own);
  }).join();
  mine.erase(mine.begin(), mine.begin() + kObjects / 2);
  release(mine);
}

TEST_P(FalseSharing, NotBetweenThreadsThatAllocateAtTheSameTime) {
  const size_t size = GetParam();
  std::vector<void*> first = allocate_many(size);
  std::vector<void*> second;
  std::thread([&] {
    second = allocate_many(size);
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

INSTANTIATE_TEST_SUITE_P(Sizes, FalseSharing, testing::Values(1, 8, 16, 24, 48, 80, 112, 160));

}  // namespace
