// What threads cost each other, in counts: the locks that eight take for a thousand objects are not
// more than those of two. Locks taken bound locks waited for, on any machine. The threads take
// turns, so that nothing depends on which of them runs when.
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "loft/loft.h"
#include "malloc/allocate.h"
#include "os/limits.h"
#include "space/metadata.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

// One thread works at a time, the next one after it, round and round.
class Turns {
 public:
  explicit Turns(unsigned threads) : threads_(threads) {}
  void await(unsigned self) {
    std::unique_lock lock(mutex_);
    passed_.wait(lock, [&] { return turn_ == self; });
  }
  void pass() {
    const std::scoped_lock lock(mutex_);
    turn_ = (turn_ + 1) % threads_;
    passed_.notify_all();
  }

 private:
  const unsigned threads_;
  unsigned turn_ = 0;
  std::mutex mutex_;
  std::condition_variable passed_;
};

// Objects that were freed, and the locks meanwhile: all, those that were found held, and those that
// every heap shares (of spans, and of loft's own metadata).
struct Counts {
  uint64_t objects, locks, waits, shared;
};

struct Load {
  explicit Load(unsigned count) : threads(count) {}
  virtual ~Load() = default;
  // A thread's turn. Some turns may leave objects for the next.
  virtual void turn(unsigned self, unsigned round) = 0;

  void make(std::vector<void*>& objects, size_t bytes) { objects.push_back(allocate(bytes)); }
  void free_all(std::vector<void*>& objects) {
    for (void* p : objects) deallocate(p);
    freed += objects.size();
    objects.clear();
  }
  void replace(void*& p, size_t bytes) {
    deallocate(p);
    p = allocate(bytes);
    ++freed;
  }

  const unsigned threads;
  uint64_t freed = 0;
};

Counts counts_now(const Load& load) {
  loft_stats_t stats{};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(loft_stats(&stats), 0);
  return {load.freed, stats.locks_taken, stats.locks_waited_for,
          span::totals().locks + metadata::locks()};
}

// Of the rounds after `warm`, in which caches and slabs have become what they stay.
Counts count(Load& load, unsigned warm, unsigned rounds) {
  Turns turns(load.threads);
  Counts from{}, to{};
  std::vector<std::thread> team;
  for (unsigned self = 0; self < load.threads; ++self) {
    team.emplace_back([&, self] {
      for (unsigned round = 0; round < warm + rounds; ++round) {
        turns.await(self);
        if (self == 0 && round == warm) from = counts_now(load);
        load.turn(self, round);
        if (self + 1 == load.threads && round + 1 == warm + rounds) to = counts_now(load);
        turns.pass();
      }
      // Nobody ends while others still count.
      turns.await(self);
      turns.pass();
    });
  }
  for (std::thread& thread : team) thread.join();
  return {to.objects - from.objects, to.locks - from.locks, to.waits - from.waits,
          to.shared - from.shared};
}

double a_thousand(uint64_t events, const Counts& counts) {
  return 1000.0 * static_cast<double>(events) / static_cast<double>(counts.objects);
}

using Sizes = std::uniform_int_distribution<size_t>;

// Half of the threads allocate, and each of the others frees what one of them did.
class MessagePassing : public Load {
 public:
  MessagePassing(unsigned count, Sizes sizes, unsigned step)
      : Load(count), sizes_(std::move(sizes)), step_(step), ways_(count / 2) {}
  void turn(unsigned self, unsigned) override {
    std::vector<void*>& way = ways_[self / 2];
    if (self % 2 != 0) return free_all(way);
    for (unsigned i = 0; i < step_; ++i) make(way, sizes_(random_));
  }

 private:
  std::mt19937 random_{1};
  Sizes sizes_;
  const unsigned step_;
  std::vector<std::vector<void*>> ways_;
};

// Each thread gives what it allocates to another one, in turn to all of them, and frees what it was
// given.
class Exchange : public Load {
 public:
  explicit Exchange(unsigned count) : Load(count), given_(count) {}
  void turn(unsigned self, unsigned round) override {
    free_all(given_[self]);
    std::vector<void*>& other = given_[(self + 1 + round % (threads - 1)) % threads];
    for (int i = 0; i < 100; ++i) make(other, sizes_(random_));
  }
  ~Exchange() override {
    for (auto& each : given_) free_all(each);
  }

 private:
  std::mt19937 random_{1};
  Sizes sizes_{8, 2048};
  std::vector<std::vector<void*>> given_;
};

// As threadtest: each thread frees what it has allocated, small objects of one size.
class OwnObjects : public Load {
 public:
  using Load::Load;
  void turn(unsigned, unsigned) override {
    std::vector<void*> objects;
    for (int i = 0; i < 3000; ++i) make(objects, 8);
    free_all(objects);
  }
};

// As larson: each thread replaces objects of a table at random, and hands it to the next one now
// and then.
class Tables : public Load {
 public:
  Tables(unsigned count, Sizes sizes, size_t slots, unsigned step, unsigned kept)
      : Load(count), sizes_(std::move(sizes)), step_(step), kept_(kept), tables_(count) {
    for (auto& table : tables_) table.resize(slots);
  }
  void turn(unsigned self, unsigned round) override {
    std::vector<void*>& table = tables_[(self + round / kept_) % threads];
    for (unsigned i = 0; i < step_; ++i) replace(table[random_() % table.size()], sizes_(random_));
  }
  ~Tables() override {
    for (auto& each : tables_) free_all(each);
  }

 private:
  std::mt19937 random_{1};
  Sizes sizes_;
  const unsigned step_, kept_;
  std::vector<std::vector<void*>> tables_;
};

class LockCountsTest : public testing::Test {
 protected:
  void SetUp() override {
    // Nothing by time.
    options.decay_ms.store(0);
    options.background.store(0);
  }

  // What a thousand objects take at two threads and at eight.
  template <class Make>
  void expect_no_more(const char* what, unsigned warm, unsigned rounds, Make load) {
    std::array<double, 2> locks{}, shared{};
    for (const unsigned threads : {2u, 8u}) {
      trim(0);
      auto made = load(threads);
      const Counts counts = count(made, warm, rounds);
      locks[threads / 8] = a_thousand(counts.locks, counts);
      shared[threads / 8] = a_thousand(counts.shared, counts);
      std::printf(
          "%s, %u threads: %.2f locks a thousand objects, %.3f of them shared, %.2f waited\n", what,
          threads, locks[threads / 8], shared[threads / 8], a_thousand(counts.waits, counts));
    }
    // Where slabs lie decides which batches meet in a set of their cache: a tenth, in message
    // passing.
    EXPECT_LE(locks[1], locks[0] + 2);
    EXPECT_LE(shared[1], shared[0] + 0.5);
  }

  test::DefaultOptions defaults_;
};

TEST_F(LockCountsTest, MessagePassing) {
  expect_no_more("message passing", 400, 400,
                 [](unsigned n) { return MessagePassing(n, Sizes(8, 2048), 100); });
}

TEST_F(LockCountsTest, Exchange) {
  expect_no_more("exchange", 400, 400, [](unsigned n) { return Exchange(n); });
}

TEST_F(LockCountsTest, OwnObjects) {
  expect_no_more("own objects", 20, 50, [](unsigned n) { return OwnObjects(n); });
}

TEST_F(LockCountsTest, TablesThatChangeHands) {
  expect_no_more("tables that change hands", 800, 800,
                 [](unsigned n) { return Tables(n, Sizes(8, 1000), 1000, 100, 50); });
}

TEST_F(LockCountsTest, Buffers) {
  expect_no_more("buffers", 400, 1600,  // locks that are shared are few
                 [](unsigned n) { return Tables(n, Sizes(32 << 10, 1 << 20), 40, 10, ~0u); });
}

TEST_F(LockCountsTest, BuffersThatArePassedOn) {
  expect_no_more("buffers that are passed on", 400, 400,
                 [](unsigned n) { return MessagePassing(n, Sizes(32 << 10, 1 << 20), 4); });
}

}  // namespace
}  // namespace loft
