// Calls of a thread whose cache has been handed over.
#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>

#include "storm/support.h"

namespace storm {
namespace {

// A destructor of the program asks for its turn until the last round that POSIX promises, when
// loft's own has run: each call is served from the heap that such threads share, object by object.
#if defined(STORM_THREAD_SANITIZER)
constexpr int kRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 1;  // the last one is its own end
#else
constexpr int kRounds = PTHREAD_DESTRUCTOR_ITERATIONS;
#endif

struct Late {
  void* object;
  void* medium;  // from the thread's own heap, freed without a block
  int rounds;
};

pthread_key_t key;
std::atomic<unsigned> bad{0};
std::atomic<unsigned> ended{0};

void in_destructor(void* value) {
  auto* late = static_cast<Late*>(value);
  bad += check_and_free(late->object, 7, 64);
  bad += check_and_free(make(8, 1'000), 8, 1'000);
  bad += check_and_free(make(9, 100'000), 9, 100'000);
  if (++late->rounds < kRounds) {
    late->object = make(7, 64);
    pthread_setspecific(key, late);
  } else {
    bad += check_and_free(late->medium, 6, 50'000);
    ++ended;
    delete late;
  }
}

TEST(Late, CallsAfterTheThreadsEnd) {
  loft_free(make(0, 16));
  const loft_stats_t before = stats();
  // After loft's own key, which was made by the call above.
  ASSERT_EQ(pthread_key_create(&key, in_destructor), 0);
  const unsigned rounds = scaled(200);
  for (unsigned i = 0; i < rounds; ++i) {
    on_threads(
        4, [](unsigned) { pthread_setspecific(key, new Late{make(7, 64), make(6, 50'000), 0}); });
  }
  EXPECT_EQ(bad, 0u);
  EXPECT_EQ(ended, 4 * rounds);
  const loft_stats_t after = stats_at_rest();
  // What was freed for the heap that such threads share may be on its way still.
  if (threads_own()) {
    EXPECT_EQ(after.threads_exited - before.threads_exited, 4 * rounds);
  }
  if (threads_own() && !guarded()) {
    EXPECT_GT(after.objects_sent_singly, 0u);
  }
  EXPECT_EQ(after.live_objects, 0u);
  EXPECT_EQ(after.cached_bytes, 0u);
  EXPECT_EQ(after.threads_attached, before.threads_attached);
  // Four threads at a time, and the shared heap.
  EXPECT_LE(after.heaps, before.heaps + 5);
  EXPECT_EQ(after.large_bytes, 0u);
  EXPECT_LE(after.slab_bytes, before.slab_bytes + 5 * (3 * 64 << 10));
}

}  // namespace
}  // namespace storm
