// A kernel that has unmapped a range before it finds that it cannot map it anew, and another thread
// of the program that maps memory into the hole at once. Nobody writes or maps there any more.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "calls.h"
#include "hardened/guarded.h"
#include "heap/large.h"
#include "space/span.h"
#include "unit/support.h"

namespace {

int refusals = 0;  // to come
std::vector<std::pair<char*, size_t>> others;

char* map_other(void* at, size_t bytes) {
  constexpr int kFlags = MAP_FIXED_NOREPLACE | MAP_NORESERVE;
  void* const p = CALL_MMAP(__real_)(at, bytes, PROT_READ | PROT_WRITE, kFlags);
  return p == at ? static_cast<char*>(p) : nullptr;
}

}  // namespace

void* CALL_MMAP(__wrap_)(void* at, size_t bytes, int protection, int flags) {
  if ((flags & MAP_FIXED) == 0 || refusals == 0) {
    return CALL_MMAP(__real_)(at, bytes, protection, flags);
  }
  --refusals;
  EXPECT_EQ(CALL_MUNMAP(__real_)(at, bytes), 0);
  char* const other = map_other(at, bytes);
  EXPECT_NE(other, nullptr);
  std::memset(other, 42, bytes);
  others.emplace_back(other, bytes);
  errno = ENOMEM;
  return MAP_FAILED;
}
int CALL_MUNMAP(__wrap_)(void* at, size_t bytes) { return CALL_MUNMAP(__real_)(at, bytes); }
int CALL_MADVISE(__wrap_)(void* at, size_t bytes, int advice) {
  return CALL_MADVISE(__real_)(at, bytes, advice);
}
void* CALL_MREMAP(__wrap_)(void* from, size_t bytes, size_t to_bytes, int flags, void* to) {
  return CALL_MREMAP(__real_)(from, bytes, to_bytes, flags, to);
}

namespace loft {
namespace {

using test::kMiB;

class RefusedFixed : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(span::initialise());
    others.clear();
  }
  void TearDown() override { refusals = 0; }

  static bool are_untouched() {
    return std::all_of(others.begin(), others.end(), [](const auto& other) {
      return std::count(other.first, other.first + other.second, 42) ==
             static_cast<ptrdiff_t>(other.second);
    });
  }
  static bool lies_in_one(const char* p, size_t bytes) {
    return std::any_of(others.begin(), others.end(), [=](const auto& other) {
      return p < other.first + other.second && other.first < p + bytes;
    });
  }
  // Takes and gives back all kinds of memory.
  static void go_on() {
    for (int round = 0; round < 3; ++round) {
      std::vector<Large*> all;
      for (size_t bytes = 5 * kMiB; bytes <= 12 * kMiB; bytes += kMiB) {
        auto* const p = static_cast<char*>(test::allocate_large(bytes, kGranule, false));
        ASSERT_NE(p, nullptr);
        ASSERT_FALSE(lies_in_one(p, bytes));
        std::memset(p, 1, bytes);
        all.push_back(large::at(pagemap.of(p)));
      }
      for (Large* object : all) large::release(object);
      span::purge(0);
    }
  }
};

TEST_F(RefusedFixed, AFreedObjectBetweenGuards) {
  auto* const p = static_cast<char*>(large::allocate_guarded(3 * kMiB, 1));
  ASSERT_NE(p, nullptr);
  std::memset(p, 1, 3 * kMiB);
  refusals = 1;
  large::release_guarded(large::at(pagemap.of(p)));
  ASSERT_EQ(others.size(), 1u);
  EXPECT_TRUE(are_untouched());
  large::empty_guarded();
  go_on();
  EXPECT_TRUE(are_untouched());
}

TEST_F(RefusedFixed, AnObjectIsOpenedAgain) {
  auto* const p = static_cast<char*>(large::allocate_guarded(3 * kMiB, 1));
  ASSERT_NE(p, nullptr);
  large::release_guarded(large::at(pagemap.of(p)));
  refusals = 1;
  large::empty_guarded();
  ASSERT_EQ(others.size(), 1u);
  go_on();
  EXPECT_TRUE(are_untouched());
}

// None of these maps anew, so that there is no hole.
TEST_F(RefusedFixed, GuardsAreClosed) {
  refusals = 100;
  auto* const p = static_cast<char*>(large::allocate_guarded(3 * kMiB, 1));
  ASSERT_NE(p, nullptr);
  std::memset(p, 1, 3 * kMiB);
  Large* const object = large::at(pagemap.of(p));
  EXPECT_TRUE(large::shrink_guarded(object, kMiB));
  EXPECT_EQ(refusals, 100);
  EXPECT_EQ(std::count(p, p + kMiB, 1), static_cast<ptrdiff_t>(kMiB));
  refusals = 0;
  large::release_guarded(object);
  large::empty_guarded();
}

TEST_F(RefusedFixed, AnObjectWhosePagesMoved) {
  auto* const first = static_cast<char*>(test::allocate_large(6 * kMiB, kGranule, false));
  auto* const wall = static_cast<char*>(test::allocate_large(6 * kMiB, kGranule, false));
  ASSERT_NE(wall, nullptr);
  std::memset(first, 1, 6 * kMiB);
  Large* const object = large::at(pagemap.of(first));
  const bool is_longer = large::resize(object, 20 * kMiB) != nullptr;
  refusals = is_longer && object->moved ? 1 : 0;  // emulators move no pages
  large::release(object);
  EXPECT_EQ(refusals, 0);
  go_on();
  EXPECT_TRUE(are_untouched());
  large::release(large::at(pagemap.of(wall)));
}

}  // namespace
}  // namespace loft
