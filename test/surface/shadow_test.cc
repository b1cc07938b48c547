// The whole surface at random against a shadow model, alone and with threads that pass objects on.
// A failure prints its seed; LOFT_TEST_SEED=seed repeats it (threads interleave as they please).
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "control.h"
#include "surface/shadow.h"

namespace {

using surface::Object;
using surface::Shadow;

// Enough for every path, few enough for a slow machine.
constexpr int kSteps = 400'000;
constexpr int kThreads = 4;
constexpr int kStepsPerThread = 80'000;

TEST(Shadow, OneThread) {
  const uint64_t seed = loft::test::seed();
  SCOPED_TRACE("LOFT_TEST_SEED=" + std::to_string(seed));
  Shadow shadow(seed, Shadow::Limits{});
  for (int i = 0; i < kSteps; ++i)
    ASSERT_TRUE(shadow.step()) << "step " << i << ": " << shadow.error();
}

// Few live objects: caches run empty and full, slabs come and go.
TEST(Shadow, SmallWorkingSet) {
  const uint64_t seed = loft::test::seed();
  SCOPED_TRACE("LOFT_TEST_SEED=" + std::to_string(seed));
  Shadow shadow(seed,
                Shadow::Limits{.live_objects = 20, .live_bytes = 4 << 20, .largest = 1 << 20});
  for (int i = 0; i < kSteps; ++i)
    ASSERT_TRUE(shadow.step()) << "step " << i << ": " << shadow.error();
}

// Objects on their way between threads.
class Exchange {
 public:
  void put(const Object& object) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(object);
  }
  bool take(uint64_t pick, Object& object) {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    std::swap(waiting_[pick % waiting_.size()], waiting_.back());
    object = waiting_.back();
    waiting_.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Object> waiting_;
};

struct Shared {
  Exchange exchange;
  std::atomic<bool> failed{false};
};

// Steps, and every few of them some objects passed on or taken over; then all that is waiting.
std::string run_thread(uint64_t seed, int steps, Shared& shared) {
  Shadow shadow(seed,
                Shadow::Limits{.live_objects = 500, .live_bytes = 24 << 20, .largest = 4 << 20});
  std::mt19937_64 random(~seed);
  Object object;
  for (int i = 0; i < steps && !shared.failed.load(std::memory_order_relaxed); ++i) {
    const uint64_t choice = random() % 8;
    if (choice < 2 && shadow.take_out(object)) shared.exchange.put(object);
    if (choice >= 6 && shared.exchange.take(random(), object)) shadow.put_in(object);
    if (!shadow.step()) {
      shared.failed.store(true, std::memory_order_relaxed);
      return "step " + std::to_string(i) + ": " + shadow.error();
    }
  }
  return {};
}

TEST(Shadow, ThreadsThatExchange) {
  const uint64_t seed = loft::test::seed();
  SCOPED_TRACE("LOFT_TEST_SEED=" + std::to_string(seed));
  Shared shared;
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { errors[t] = run_thread(seed + t, kStepsPerThread, shared); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");

  // What was still on its way, freed by a thread that made none of it, whose makers are gone.
  Shadow rest(seed, Shadow::Limits{});
  Object object;
  while (shared.exchange.take(0, object)) rest.put_in(object);
  EXPECT_EQ(rest.error(), "");
}

// Threads that live for a moment: heaps are abandoned and taken over while their objects live on.
TEST(Shadow, ThreadsThatComeAndGo) {
  const uint64_t seed = loft::test::seed();
  SCOPED_TRACE("LOFT_TEST_SEED=" + std::to_string(seed));
  Shared shared;
  for (uint64_t round = 0; round < 150; ++round) {
    std::string errors[3];
    std::thread threads[3];
    for (size_t t = 0; t < 3; ++t) {
      threads[t] =
          std::thread([&, t] { errors[t] = run_thread(seed + 3 * round + t, 300, shared); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) ASSERT_EQ(error, "") << "round " << round;
  }
  Shadow rest(seed, Shadow::Limits{});
  Object object;
  while (shared.exchange.take(0, object)) rest.put_in(object);
  EXPECT_EQ(rest.error(), "");
}

}  // namespace
