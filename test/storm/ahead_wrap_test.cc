// Memory ahead of its use where the system does not give it: what grows is served all the same, and
// the system is not asked again. The linker sends the system calls here (test/CMakeLists.txt).
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "calls.h"
#include "storm/support.h"

namespace storm {
namespace {

constexpr int kCold = 20, kPopulateWrite = 23;  // older headers lack the names
std::atomic<int> refusal{0};  // an errno for calls that populate; 0: they are made
std::atomic<long> populations{0};
std::atomic<long> huge_advices{0};    // that the system took
std::atomic<uintptr_t> looked_at{0};  // a range of kLookedAt bytes
std::atomic<long> splits{0};          // in it
constexpr size_t kLookedAt = 128 << 10;

}  // namespace
}  // namespace storm

int CALL_MADVISE(__wrap_)(void* at, size_t bytes, int advice) {
  if (advice != storm::kPopulateWrite) {
    const int result = CALL_MADVISE(__real_)(at, bytes, advice);
    storm::huge_advices += advice == MADV_HUGEPAGE && result == 0;
    const uintptr_t from = reinterpret_cast<uintptr_t>(at) - storm::looked_at;
    storm::splits += advice == storm::kCold && from < storm::kLookedAt;
    return result;
  }
  ++storm::populations;
  if (storm::refusal == 0) return CALL_MADVISE(__real_)(at, bytes, advice);
  errno = storm::refusal;
  return -1;
}

namespace storm {
namespace {

constexpr size_t kObject = 256;
constexpr size_t kInUse = size_t{96} << 20;

// Returns how often the system was asked while kInUse were allocated.
long asked_while_growing() {
  const long before = populations;
  std::vector<void*> objects;
  for (uint64_t i = 0; i < kInUse / kObject; ++i) {
    errno = 77;
    void* p = loft_malloc(kObject);
    EXPECT_EQ(errno, 77);
    stamp(p, i, kObject);
    objects.push_back(p);
  }
  for (uint64_t i = 0; i < objects.size(); ++i) EXPECT_TRUE(intact(objects[i], i, kObject));
  for (void* p : objects) loft_free(p);
  return populations - before;
}

// Each test works in a process of its own: a refusal is never forgotten.
class Ahead : public testing::TestWithParam<int> {};

TEST_P(Ahead, IsNotAskedForAgain) {
  in_child([] {
    refusal = GetParam();
    EXPECT_EQ(asked_while_growing(), 1);
    refusal = 0;
    loft_purge(nullptr);
    EXPECT_EQ(asked_while_growing(), 0);
    const loft_stats_t s = stats_at_rest();
    EXPECT_EQ(s.live_bytes, 0u);
  });
}

INSTANTIATE_TEST_SUITE_P(Refusals, Ahead, testing::Values(EINVAL, EPERM, ENOMEM, EAGAIN, EFAULT));

TEST(Ahead, IsAskedForOnceInManySlabs) {
  in_child([] {
    const long asked = asked_while_growing();
    // For each 64 KiB up to 64 MiB, for 2 MiB from there on; the first few are shorter.
    EXPECT_GE(asked, 1024);
    EXPECT_LE(asked, 1024 + 64);
  });
}

// A huge page of which a part is discarded keeps its memory until it is split.
TEST(Ahead, IsSplitWhereAHeapOfTheProgramsOwnGivesItBack) {
  in_child([] {
    asked_while_growing();  // what it had is free and resident
    if (huge_advices == 0) return;
    loft_heap_t* const heap = loft_heap_create();
    std::vector<void*> objects;
    for (unsigned i = 0; i < 64; ++i) {
      objects.push_back(loft_heap_malloc(heap, kLookedAt));
      memset(objects.back(), 1, kLookedAt);
    }
    looked_at = reinterpret_cast<uintptr_t>(objects[33]);
    loft_heap_free(heap, objects[33]);
    loft_purge(nullptr);
    EXPECT_GE(splits, 1);
    loft_heap_destroy(heap);
  });
}

}  // namespace
}  // namespace storm
