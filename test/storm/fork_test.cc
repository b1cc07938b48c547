// Forks of a program whose threads are all at work. The child has one thread and may allocate and
// free at once, its parent's objects too.
//
// The thread sanitizer watches nothing in the child of such a fork, but sees what the parent does
// around it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm/support.h"

namespace storm {
namespace {

constexpr size_t kForkSizes[] = {16, 48, 64, 320, 2'000, 9'000, 40'000, 300'000};

size_t fork_size(uint64_t id) { return kForkSizes[id % std::size(kForkSizes)]; }

// Threads that allocate, free, exchange and end until they are told to stop.
class Load {
 public:
  explicit Load(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
    threads_.emplace_back([this] {
      while (!stop_) {
        std::thread([this] { steps(seed_for(99), 60); }).join();
      }
    });
    while (working_ < threads) sched_yield();
  }
  // In the child of a fork: nobody got an object that other threads had in use.
  bool is_intact() const {
    for (const auto& place : table_) {
      void* const p = place.load();
      if (p != nullptr && !intact(p, id_of(p), fork_size(id_of(p)), fork_size(id_of(p))))
        return false;
    }
    return true;
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    for (auto& place : table_) take_out(place.load());
    EXPECT_EQ(bad_, 0u);
  }

 private:
  void take_out(void* p) {
    if (p != nullptr) bad_ += check_and_free(p, id_of(p), fork_size(id_of(p)));
  }
  void steps(uint64_t random, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      advance(random);
      const uint64_t id = random >> 40;
      void* mine = make(id, fork_size(id));
      take_out(table_[(random >> 33) % std::size(table_)].exchange(mine));
    }
  }
  void work(unsigned self) {
    ++working_;
    for (uint64_t round = 1; !stop_; ++round) steps(seed_for(self + round * 64), 100);
  }

  std::atomic<bool> stop_{false};
  std::atomic<unsigned> working_{0};
  std::atomic<unsigned> bad_{0};
  std::atomic<void*> table_[200] = {};
  std::vector<std::thread> threads_;
};

// In the child. Returns its exit status: 0 if everything was as it should be.
int child(const Load& load, const std::vector<void*>& inherited, bool threads) {
  loft::test::end_what_hangs();  // is counted as a child that failed
  unsigned faults = 0;
  for (size_t i = 0; i < inherited.size(); ++i) {
    faults += check_and_free(inherited[i], i, fork_size(i));
  }
  const auto use = [](unsigned) {
    unsigned bad = 0;
    std::vector<void*> held;
    for (unsigned i = 0; i < 200; ++i) held.push_back(make(i, fork_size(i)));
    for (unsigned i = 0; i < 200; i += 2) {
      held[i] = loft_realloc(held[i], fork_size(i + 1));
      if (!intact(held[i], i, fork_size(i), fork_size(i + 1))) ++bad;
      stamp(held[i], i, fork_size(i + 1));
    }
    for (unsigned i = 0; i < 200; ++i) {
      bad += check_and_free(held[i], i, fork_size(i + (i % 2 == 0)));
    }
    return bad;
  };
  faults += use(0);
  if (threads) {
    std::atomic<unsigned> bad{0};
    on_threads(3, [&](unsigned self) { bad += use(self); });
    faults += bad;
  }
  // More than what dead threads had cached.
  std::vector<void*> held;
  for (unsigned i = 0; i < 20'000; ++i) held.push_back(make(i, fork_size(i % 6)));
  if (!load.is_intact()) ++faults;
  for (unsigned i = 0; i < held.size(); ++i) faults += check_and_free(held[i], i, fork_size(i % 6));
  loft_malloc_trim(0);
  return faults == 0 ? 0 : 1;
}

// Forks `children` times; returns how many of them did not exit with 0.
unsigned fork_children(const Load& load, unsigned children, bool threads) {
  unsigned failed = 0;
  std::vector<void*> mine;
  for (unsigned i = 0; i < 100; ++i) mine.push_back(make(i, fork_size(i)));
  for (unsigned i = 0; i < children; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(child(load, mine, threads));
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) ++failed;
  }
  for (unsigned i = 0; i < 100; ++i) failed += check_and_free(mine[i], i, fork_size(i));
  return failed;
}

#if defined(STORM_THREAD_SANITIZER)
constexpr bool kThreadsInChild = false;  // it cannot start threads after such a fork
#else
constexpr bool kThreadsInChild = true;
#endif

TEST(Fork, UnderLoad) {
  const Load load(4);
  EXPECT_EQ(fork_children(load, scaled(40), kThreadsInChild), 0u);
}

TEST(Fork, FromSeveralThreadsAtOnce) {
  const Load load(2);
  std::atomic<unsigned> failed{0};
  on_threads(3, [&](unsigned) { failed += fork_children(load, scaled(16), false); });
  EXPECT_EQ(failed, 0u);
}

// A child forks in turn, and so does its child.
TEST(Fork, GrandchildrenUnderLoad) {
  const Load load(3);
  for (unsigned i = 0; i < scaled(12); ++i) {
    void* p = make(i, 64);
    const pid_t pid = fork();
    if (pid == 0) {
      loft::test::end_what_hangs();
      unsigned failed = check_and_free(p, i, 64);
      const auto in_grandchild = [&] { failed += fork_children(load, 2, false); };
      if (kThreadsInChild) {
        std::thread(in_grandchild).join();
      } else {
        in_grandchild();
      }
      _exit(failed == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(check_and_free(p, i, 64), 0u);
  }
}

}  // namespace
}  // namespace storm
