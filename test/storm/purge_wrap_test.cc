// A purge, and what another thread frees in the middle of it.
//
// The linker sends the calls that give memory back here (test/CMakeLists.txt).
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "calls.h"
#include "storm/support.h"

namespace storm {
namespace {

constexpr size_t kMiB = 1 << 20;

// 0: nobody purges yet. 1: the first purge is under way. 2: the other thread has freed all.
std::atomic<int> step{0};
std::atomic<bool> armed{false};

void wait_for(int wanted) {
  while (step < wanted) usleep(100);
}

std::vector<void*> objects_of(size_t bytes) {
  std::vector<void*> objects(bytes / 512);
  for (void*& each : objects) {
    each = loft_malloc(512);
    *static_cast<char*>(each) = 1;
  }
  return objects;
}

}  // namespace
}  // namespace storm

int CALL_MADVISE(__wrap_)(void* at, size_t bytes, int advice) {
  if (storm::armed.exchange(false)) {
    storm::step = 1;
    storm::wait_for(2);
  }
  return CALL_MADVISE(__real_)(at, bytes, advice);
}

namespace storm {
namespace {

// It finds the purge under way, and calls malloc no more. Nor does the thread that purges.
TEST(Purge, GoesOnWithWhatAnotherThreadFreesMeanwhile) {
  in_child([] {
    constexpr size_t kBound = 8 * kMiB;
    EXPECT_EQ(loft_option_set("thp", "never"), 0);
    EXPECT_EQ(loft_option_set("dirty_bytes", "8M"), 0);
    const std::vector<void*> own = objects_of(24 * kMiB);
    const std::vector<void*> others = objects_of(40 * kMiB);
    std::atomic<bool> ended{false};
    std::thread other([&] {
      loft_free(loft_malloc(512));
      wait_for(1);
      // Every slab keeps an object, so that nothing but holes can go.
      for (size_t i = 0; i < others.size(); ++i) {
        if (i % 100 != 0) loft_free(others[i]);
      }
      step = 2;
      while (!ended) usleep(100);
    });
    armed = true;
    for (size_t i = 0; i < own.size() && step == 0; ++i) {
      if (i % 100 != 0) loft_free(own[i]);
    }
    EXPECT_EQ(step, 2);
    const loft_stats_t s = stats();
    EXPECT_LE(s.resident_bytes - s.live_bytes - s.rounding_bytes, kBound + kBound / 4 + 4 * kMiB);
    ended = true;
    other.join();
  });
}

}  // namespace
}  // namespace storm
