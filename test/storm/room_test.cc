// The policy `room`: one heap, the room's, owns every slab, and threads come and go before it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <thread>

#include "base/options.h"
#include "heap/registry.h"
#include "room/magazines.h"
#include "storm/support.h"
#include "thread/lifecycle.h"

// The link-time symbol: the tests of this file are this policy's.
const char* loft_options = "owner=room,room_serves=always";

namespace storm {
namespace {

class Room : public Storm {
 protected:
  void SetUp() override { ASSERT_EQ(loft::get(loft::options.owner), loft::kOwnerRoom); }
};

constexpr size_t kSizes[] = {16, 48, 64, 320, 2'000, 30'000};

// What one thread frees for another goes into its own cache: nothing travels, and nobody parks the
// heap that the others use.
TEST_F(Room, OneHeapOwnsEverything) {
  constexpr unsigned kThreads = 6;
  const unsigned rounds = scaled(40);
  Street street(kThreads * 400);
  std::atomic<unsigned> bad{0};
  for (unsigned round = 0; round < rounds; ++round) {
    std::barrier meet(kThreads);
    on_threads(kThreads, [&](unsigned self) {
      for (unsigned i = self * 400; i < (self + 1) * 400; ++i)
        street.put(i, make(i, kSizes[i % 6]));
      meet.arrive_and_wait();
      const unsigned other = (self + 1) % kThreads;
      unsigned faults = 0;
      for (unsigned i = other * 400; i < (other + 1) * 400; ++i) {
        faults += check_and_free(street.take(i), i, kSizes[i % 6]);
      }
      bad += faults;
    });
  }
  EXPECT_EQ(bad, 0u);
  const loft_stats_t s = stats_at_rest();
  EXPECT_EQ(s.heaps, 1u);
  EXPECT_EQ(s.heaps_parked, 0u);
  EXPECT_EQ(s.batch_objects, 0u);
  EXPECT_EQ(loft::registry::at(1), loft::registry::common_heap());
  expect_all_home(std::size(kSizes), 512 << 10);
}

// A thread that has allocated and waits: beside a single one, the room would not go on.
class Company {
 public:
  Company() : thread_([this] { keep(make(1, 512)); }) { there_.wait(false); }
  ~Company() {
    leave_ = true;
    leave_.notify_one();
    thread_.join();
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  void keep(void* object) {
    there_ = true;
    there_.notify_one();
    leave_.wait(false);
    EXPECT_EQ(check_and_free(object, 1, 512), 0u);
  }

  std::atomic<bool> there_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

// Until the room has done some of everything. False where the machine has no processor for it.
bool room_helps() {
  for (int round = 0; round < 100'000; ++round) {
    const loft_stats_t s = stats();
    if (s.room_ready != 0 && s.room_returns != 0) return true;
    if (loft::room::state.load() == loft::room::kRefused) return false;
    std::vector<void*> held;
    for (unsigned i = 0; i < 4000; ++i) held.push_back(make(i, 512));
    for (unsigned i = 0; i < 4000; ++i) EXPECT_EQ(check_and_free(held[i], i, 512), 0u);
  }
  return false;
}

// Threads stream, exchange and end with the room at work beside them: magazines are in flight at
// every moment, the last one of each thread included.
TEST_F(Room, TheRoomWorksBesideThreadsThatComeAndGo) {
  std::optional<Company> company(std::in_place);
  if (!room_helps()) GTEST_SKIP() << "no room on this machine";
  constexpr unsigned kThreads = 4;
  constexpr unsigned kObjects = 3'000;
  for (unsigned round = 0; round < scaled(40); ++round) {
    Street street(kThreads * kObjects);
    std::atomic<unsigned> bad{0};
    on_threads(kThreads, [&](unsigned self) {
      const auto size = [](unsigned i) { return kSizes[i / 500 % 5]; };
      for (unsigned i = self * kObjects; i < (self + 1) * kObjects; ++i) {
        street.put(i, make(i, size(i)));
      }
      const unsigned other = (self + 1) % kThreads;
      unsigned faults = 0;
      for (unsigned i = other * kObjects; i < (other + 1) * kObjects; ++i) {
        faults += check_and_free(street.take(i), i, size(i));
      }
      bad += faults;
    });
    ASSERT_EQ(bad, 0u);
  }
  EXPECT_GT(stats().room_cpu_ns, 0u);
  company.reset();
  expect_all_home(std::size(kSizes), 512 << 10);
}

// Forks at any moment of the room's work. The child gets one of its own when it has lived for a
// while; until then, its thread serves itself.
TEST_F(Room, ForksBesideTheRoom) {
  std::optional<Company> company(std::in_place);
  if (!room_helps()) GTEST_SKIP() << "no room on this machine";
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&stop] {
      while (!stop) {
        std::vector<void*> held;
        for (unsigned i = 0; i < 2'000; ++i) held.push_back(make(i, kSizes[i % 4]));
        for (unsigned i = 0; i < 2'000; ++i) {
          EXPECT_EQ(check_and_free(held[i], i, kSizes[i % 4]), 0u);
        }
      }
    });
  }
  for (unsigned fork_number = 0; fork_number < scaled(100); ++fork_number) {
    const pid_t child = fork();
    if (child == 0) {
      loft::test::end_what_hangs();
      unsigned faults = 0;
      std::vector<void*> held;
      for (unsigned i = 0; i < 5'000; ++i) held.push_back(make(i, kSizes[i % 4]));
      for (unsigned i = 0; i < 5'000; ++i) faults += check_and_free(held[i], i, kSizes[i % 4]);
      _exit(faults == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  company.reset();
  expect_all_home(4);
}

}  // namespace
}  // namespace storm
