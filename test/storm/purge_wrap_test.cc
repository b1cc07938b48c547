// A purge, and what another thread frees in the middle of it.
//
// The linker sends the calls that give memory back here (test/CMakeLists.txt).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "calls.h"
#include "storm/support.h"

namespace storm {
namespace {

constexpr size_t kMiB = 1 << 20;

enum Step { kStarting, kReady, kPurging, kFreed, kEnded };
std::atomic<int> step{kStarting};
std::atomic<pid_t> purger{0};

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
  if (advice == MADV_DONTNEED && storm::step == storm::kReady && gettid() == storm::purger) {
    storm::step = storm::kPurging;
    storm::wait_for(storm::kFreed);
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
    // Every slab keeps an object, or few pages do, so that nothing but holes can go.
    const size_t stride = 100 * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 4096;
    std::thread other([&] {
      loft_free(loft_malloc(512));
      step = kReady;
      wait_for(kPurging);
      for (size_t i = 0; i < others.size(); ++i) {
        if (i % stride != 0) loft_free(others[i]);
      }
      int expected = kPurging;
      step.compare_exchange_strong(expected, kFreed);
      wait_for(kEnded);
    });
    purger = gettid();
    wait_for(kReady);
    for (size_t i = 0; i < own.size() && step == kReady; ++i) {
      if (i % stride != 0) loft_free(own[i]);
    }
    EXPECT_EQ(step, kFreed);
    const loft_stats_t s = stats();
    EXPECT_LE(s.resident_bytes - s.live_bytes - s.rounding_bytes, kBound + kBound / 4 + 4 * kMiB);
    step = kEnded;
    other.join();
  });
}

}  // namespace
}  // namespace storm
