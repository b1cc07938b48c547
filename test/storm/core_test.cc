// Processors as owners: what is new there is that a thread may be preempted, moved to another
// processor or interrupted by a signal between any two instructions of malloc and free, and that
// others on the same processor then go on with what it was at.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <mutex>

#include "cache/thread_cache.h"
#include "os/os.h"
#include "os/restartable.h"
#include "refused_call.h"
#include "storm/support.h"

// As a program chooses it when it is linked.
const char* loft_options = "owner=cpu";

namespace storm {
namespace {

constexpr size_t kMixed[] = {16, 24, 64, 200, 512, 1'000, 2'000, 9'000};
size_t mixed(uint64_t i) { return kMixed[i % std::size(kMixed)]; }

// Moved about, the caller goes back to where it was allowed to be at the end.
class Affinity {
 public:
  Affinity() { EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0); }
  ~Affinity() { EXPECT_EQ(sched_setaffinity(0, sizeof(before_), &before_), 0); }

 private:
  cpu_set_t before_;
};

class CoreStorm : public Storm {
 protected:
  void expect_home() const {
    expect_all_home(std::size(kMixed), 512 << 10);
    const loft_stats_t s = stats();
    EXPECT_EQ(s.threads_started, 0u);
    EXPECT_LE(s.cores, static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_CONF)));
    EXPECT_EQ(s.heaps, s.cores) << "nobody was without a block";
  }
};

// Objects of all threads in shared places: who takes one checks it, frees it, and puts a new one.
class Exchange {
 public:
  ~Exchange() {
    for (std::atomic<void*>& place : places_) release(place.exchange(nullptr));
    EXPECT_EQ(bad_, 0u);
  }

  void run(unsigned thread, unsigned rounds) {
    uint64_t random = seed_for(thread);
    void* own[16] = {};
    unsigned bad = 0;
    for (uint64_t i = 0; i < rounds; ++i) {
      advance(random);
      const uint64_t id = uint64_t{thread} << 32 | i;
      void* fresh = make(id, mixed(random >> 40));
      // Every second one stays with its thread for a while.
      void*& mine = own[random >> 33 & 15];
      if ((random >> 60 & 1) != 0) {
        bad += release(mine);
        mine = fresh;
      } else {
        bad += release(places_[random >> 50 & (std::size(places_) - 1)].exchange(fresh));
      }
    }
    for (void* p : own) bad += release(p);
    bad_ += bad;
  }

 private:
  static unsigned release(void* p) {
    return p == nullptr ? 0 : check_and_free(p, id_of(p), size_of(p));
  }

  std::atomic<void*> places_[256] = {};
  std::atomic<unsigned> bad_{0};
};

// Threads at work, whose numbers others may ask for.
class Workers {
 public:
  Workers(unsigned count, unsigned rounds) : numbers_(count), running_(count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this, i, rounds] {
        numbers_[i] = static_cast<pid_t>(syscall(SYS_gettid));
        exchange_.run(i, rounds);
        --running_;
      });
    }
  }
  ~Workers() {
    for (std::thread& thread : threads_) thread.join();
  }
  bool running() const { return running_ != 0; }
  // Calls visit(number) for each thread that has begun.
  template <class Visit>
  void each(Visit visit) {
    for (const std::atomic<pid_t>& number : numbers_) {
      if (const pid_t thread = number; thread != 0) visit(thread);
    }
  }

 private:
  Exchange exchange_;
  std::vector<std::atomic<pid_t>> numbers_;
  std::atomic<unsigned> running_;
  std::vector<std::thread> threads_;
};

TEST_F(CoreStorm, ThreadsHoldNothing) {
  for (unsigned i = 0; i < scaled(400); ++i) {
    std::thread([] {
      Exchange exchange;
      exchange.run(0, 200);
    }).join();
  }
  // What lies in caches is a processor's share, however many threads there were.
  EXPECT_LE(stats().cached_bytes, stats().cores * (2u << 20));
  expect_home();
}

// Far more threads than processors: many are preempted within malloc and free.
TEST_F(CoreStorm, ManyThreadsForEachProcessor) {
  {
    Workers workers(48, scaled(40'000));
  }
  expect_home();
}

TEST_F(CoreStorm, ThreadsAreMoved) {
  const std::vector<int> all = processors();
  if (all.size() < 2) GTEST_SKIP() << "one processor";
  {
    Workers workers(6, scaled(150'000));
    for (size_t i = 0; workers.running(); ++i) {
      workers.each([&](pid_t thread) { move_to(thread, all[(i + size_t(thread)) % all.size()]); });
    }
  }
  expect_home();
}

// A signal aborts a sequence that it interrupts.
TEST_F(CoreStorm, Signals) {
  static std::atomic<unsigned> signals{0};
  struct sigaction action = {};
  action.sa_handler = [](int) { ++signals; };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  // On one processor the workers may be through before this thread has its turn.
  for (int wave = 0; wave == 0 || (signals < 100 && wave < 100); ++wave) {
    Workers workers(4, scaled(200'000));
    while (workers.running()) {
      workers.each([](pid_t thread) { syscall(SYS_tgkill, getpid(), thread, SIGUSR1); });
    }
  }
  EXPECT_GE(signals, 100u);
  expect_home();
}

// A stack that is closed, with and without an array, and where a sequence that had read the top
// before has moved the mark.
TEST_F(CoreStorm, NoSequenceGetsOnWithAClosedStack) {
  namespace os = loft::os;
  if (!os::kRestartable || os::find_restartable() != os::Sequences::kWork) {
    GTEST_SKIP() << "the system has no such sequences";
  }
  // Not writable, as what it stands for.
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  void** const closed = static_cast<void**>(page) + 1;
  void* array[8] = {};
  struct Block {
    void* other[2];
    loft::Bin stack;
  } block = {};
  const auto numbers = static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)) + 2;
  std::vector<void*> blocks(std::max<size_t>(numbers, 4096), &block);
  void** const blocks_before = os::restartable.blocks;
  for (void** limit : {closed - 1, array + 7 < closed ? array + 7 : closed - 1}) {
    for (void** top : {closed - 1, closed, closed + 1}) {
      block.stack = {top, limit};
      os::restartable.blocks = blocks.data() + 2;
      void* popped = os::pop(offsetof(Block, stack));
      const bool pushed = os::push(array, offsetof(Block, stack));
      os::restartable.blocks = blocks_before;
      EXPECT_EQ(popped, nullptr) << top - closed;
      EXPECT_FALSE(pushed) << top - closed;
      EXPECT_EQ(block.stack.top(), top);
    }
  }
  munmap(page, 4096);
}

// Others empty the caches of all processors while these work.
TEST_F(CoreStorm, PurgedMeanwhile) {
  {
    Workers workers(4, scaled(150'000));
    while (workers.running()) {
      loft_unreached_t unreached = {1, 1};
      loft_purge(&unreached);
      EXPECT_EQ(unreached.threads, 0u);
      EXPECT_EQ(unreached.bytes, 0u);
    }
  }
  if (loft::os::kRestartable && loft::os::find_restartable() == loft::os::Sequences::kWork) {
    EXPECT_GT(stats().core_fences, 0u);
  }
  expect_home();
}

// One thread does nothing but malloc and free, so that it is mostly within a sequence when somebody
// on another processor closes the stack.
TEST_F(CoreStorm, PurgedFromAfar) {
  const std::vector<int> all = processors();
  if (all.size() < 2) GTEST_SKIP() << "one processor";
  const Affinity affinity;
  std::atomic<bool> running{true};
  std::thread worker([&] {
    move_to(0, all[1]);
    void* ring[8] = {};
    unsigned bad = 0;
    uint64_t i = 0;
    for (; i < scaled(6'000'000); ++i) {
      void*& p = ring[i % std::size(ring)];
      if (p != nullptr) bad += check_and_free(p, i - std::size(ring), 64);
      p = make(i, 64);
    }
    for (void* p : ring) bad += check_and_free(p, id_of(p), 64);
    EXPECT_EQ(bad, 0u);
    running = false;
  });
  move_to(0, all[0]);
  while (running) loft_purge(nullptr);
  worker.join();
  expect_home();
}

// The child has the caches of all processors as they were, and can use and empty them.
TEST_F(CoreStorm, ForkAtAnyMoment) {
  {
    Workers workers(4, scaled(400'000));
    while (workers.running()) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        loft::test::end_what_hangs();
        unsigned bad = 0;
        for (const int cpu : processors()) {
          move_to(0, cpu);
          for (uint64_t i = 0; i < 300; ++i) {
            bad += check_and_free(make(i, mixed(i)), i, mixed(i));
          }
        }
        loft_purge(nullptr);
        if (stats().cached_bytes != 0) bad |= 1;
        _exit(bad == 0 ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
  }
  expect_home();
}

bool refuse_fences() { return loft::test::refuse_call(SYS_membarrier, SECCOMP_FILTER_FLAG_TSYNC); }

// Then what one processor has in its cache stays out of the others' reach; nothing is lost.
TEST_F(CoreStorm, FencesAreRefusedMeanwhile) {
  const std::vector<int> all = processors();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    loft::test::end_what_hangs();
    {
      Workers workers(4, scaled(300'000));
      for (int purge = 0; purge < 3; ++purge) loft_purge(nullptr);
      if (!refuse_fences()) _exit(43);
      while (workers.running()) loft_purge(nullptr);
    }
    for (const int cpu : all) {
      move_to(0, cpu);
      // Whoever holds a stack there opens what the refused fences left closed.
      for (uint64_t i = 0; i < std::size(kMixed); ++i) {
        if (check_and_free(make(i, mixed(i)), i, mixed(i)) != 0) _exit(1);
      }
    }
    // More than once, since what one sends may belong to a processor that was looked at before, and
    // as a thread that is put aside just now holds nothing without a fence.
    for (int round = 0; round < 4; ++round) {
      for (const int cpu : all) {
        move_to(0, cpu);
        loft_purge(nullptr);
      }
    }
    const loft_stats_t s = stats();
    _exit(s.cached_bytes == 0 && s.live_objects == 0 ? 42 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 43) GTEST_SKIP() << "the system has no filter for its calls";
  EXPECT_EQ(WEXITSTATUS(status), 42);
  expect_home();
}

// What a processor has in its cache can be reached from another one, and when nobody runs there any
// more.
TEST_F(CoreStorm, RestrictedProcessors) {
  const Affinity affinity;
  std::vector<void*> objects(2'000);
  for (const int cpu : processors()) {
    move_to(0, cpu);
    for (size_t i = 0; i < objects.size(); ++i) objects[i] = make(i, mixed(i));
    for (size_t i = 0; i < objects.size(); ++i) {
      EXPECT_EQ(check_and_free(objects[i], i, mixed(i)), 0u);
    }
  }
  EXPECT_GE(stats().cores, processors().size());
  EXPECT_GT(stats().cached_bytes, 0u);
  move_to(0, processors().front());
  loft_purge(nullptr);
  EXPECT_EQ(stats().cached_bytes, 0u);
  expect_home();
}

// The background thread does the same when nobody does anything.
TEST_F(CoreStorm, IdleCachesAreEmptied) {
  ASSERT_EQ(loft_option_set("background", "on"), 0);
  ASSERT_EQ(loft_option_set("decay_ms", "100"), 0);
  std::vector<void*> objects(100'000);
  for (size_t i = 0; i < objects.size(); ++i) objects[i] = make(i, 300);
  for (size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(check_and_free(objects[i], i, 300), 0u);
  }
  for (int round = 0; round < 3; ++round) {
    loft::test::pass_ms(3000);
    EXPECT_EQ(stats().cached_bytes + stats().dirty_bytes, 0u);
    // And it is woken by what happens next.
    for (size_t i = 0; i < 2'000; ++i) objects[i] = make(i, mixed(i));
    for (size_t i = 0; i < 2'000; ++i) {
      EXPECT_EQ(check_and_free(objects[i], i, mixed(i)), 0u);
    }
  }
  EXPECT_EQ(loft_option_set("decay_ms", "500"), 0);
  expect_home();
}

#if defined(__x86_64__) && !defined(STORM_THREAD_SANITIZER) && !defined(STORM_ADDRESS_SANITIZER)
// A debugger that goes step by step interrupts each sequence between any two instructions.
TEST_F(CoreStorm, StepByStep) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    unsigned bad = 0;
    void* objects[40];
    for (uint64_t i = 0; i < std::size(objects); ++i) objects[i] = make(i, 64);
    for (uint64_t i = 0; i < std::size(objects); ++i) bad += check_and_free(objects[i], i, 64);
    _exit(bad == 0 ? 42 : 1);
  }
  int status = 0;
  unsigned long steps = 0;
  for (;; ++steps) {
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) break;
    ASSERT_LT(steps, 10'000'000u) << "no progress";
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_GT(steps, 1'000u);
}
#endif

void expect_interior_pointer_is_seen(void* p) {
  EXPECT_DEATH(
      {
        loft_free(static_cast<char*>(p) + 16);
        loft_purge(nullptr);
      },
      "interior pointer");
}

// The first frees of each kind are checked one by one; later ones on their way home.
TEST_F(CoreStorm, DoubleFree) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  void* p = loft_malloc(100);
  EXPECT_DEATH(
      {
        loft_free(p);
        loft_free(p);
        loft_purge(nullptr);  // at the latest
      },
      "double free of");
  expect_interior_pointer_is_seen(p);
  loft_free(p);
}

TEST_F(CoreStorm, DoubleFreeOfAnotherProcessorsObject) {
  const std::vector<int> all = processors();
  if (all.size() < 2) GTEST_SKIP() << "one processor";
  testing::FLAGS_gtest_death_test_style = "fast";  // a new program would have one processor
  const Affinity affinity;
  move_to(0, all[0]);
  void* p = loft_malloc(100);
  move_to(0, all[1]);
  EXPECT_DEATH(
      {
        move_to(0, all[1]);
        loft_free(p);
        loft_free(p);
        loft_purge(nullptr);  // at the latest
      },
      "double free of");
  expect_interior_pointer_is_seen(p);
  loft_free(p);
}

}  // namespace
}  // namespace storm
