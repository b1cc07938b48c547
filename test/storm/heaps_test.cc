// Heaps of the program's own under many threads: objects that change hands, heaps that come and go,
// purges, and forks in the midst of it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm/support.h"
#include "surface/heap_stats.h"

namespace storm {
namespace {

using surface::stats_of;

constexpr size_t kHeapSizes[] = {16, 48, 100, 320, 1'000, 3'000, 20'000, 700'000};
size_t heap_size(uint64_t id) { return kHeapSizes[id % std::size(kHeapSizes)]; }

void* make_in(loft_heap_t* heap, uint64_t id) {
  void* p = loft_heap_malloc(heap, heap_size(id));
  if (p != nullptr) stamp(p, id, heap_size(id));
  return p;
}

// Threads that put objects into a table and take out what others put there.
class Table {
 public:
  // `plain_free`: now and then by the function that does not name the heap.
  Table(loft_heap_t* heap, bool plain_free) : heap_(heap), plain_free_(plain_free) {}
  ~Table() {
    for (auto& place : table_) take_out(place.exchange(nullptr), false);
    EXPECT_EQ(bad_, 0u);
    EXPECT_EQ(stats_of(heap_).live_objects, 0u);
    EXPECT_EQ(stats_of(heap_).live_bytes, 0u);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  void steps(uint64_t random, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      advance(random);
      void* mine = make_in(heap_, random >> 40);
      if (mine != nullptr && (random >> 20) % 8 == 0) mine = resized(mine, random >> 40);
      take_out(table_[(random >> 33) % std::size(table_)].exchange(mine), (random >> 25) % 2 == 0);
    }
  }

 private:
  void* resized(void* p, uint64_t id) {
    void* q = loft_heap_realloc(heap_, p, heap_size(id + 1));
    if (q == nullptr) return p;
    if (!intact(q, id, heap_size(id), heap_size(id + 1))) ++bad_;
    stamp(q, id + 1, heap_size(id + 1));
    return q;
  }
  void take_out(void* p, bool plainly) {
    if (p == nullptr) return;
    if (!intact(p, id_of(p), heap_size(id_of(p)))) ++bad_;
    if (plainly && plain_free_) {
      loft_free(p);
    } else {
      loft_heap_free(heap_, p);
    }
  }

  loft_heap_t* heap_;
  const bool plain_free_;
  std::atomic<unsigned> bad_{0};
  std::atomic<void*> table_[200] = {};
};

constexpr size_t kRegion = size_t{32} << 20;

class Heaps : public testing::Test {
 protected:
  void SetUp() override {
    region_ = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(region_, MAP_FAILED);
    over_region_ = loft_heap_create_over(region_, kRegion);
    ordinary_ = loft_heap_create();
  }
  void TearDown() override {
    loft_heap_destroy(over_region_);
    loft_heap_destroy(ordinary_);
    munmap(region_, kRegion);
  }

  void* region_ = nullptr;
  loft_heap_t* over_region_ = nullptr;
  loft_heap_t* ordinary_ = nullptr;
};

TEST_F(Heaps, ManyThreadsAtOnce) {
  Table first(ordinary_, true);
  Table second(over_region_, false);
  on_threads(6, [&](unsigned self) {
    for (unsigned round = 0; round < scaled(60); ++round) {
      first.steps(seed_for(self + round * 64), 200);
      second.steps(seed_for(self + round * 64), 200);
      if (round % 16 == self) loft_malloc_trim(0);
    }
  });
}

TEST_F(Heaps, HeapsThatComeAndGo) {
  Table table(ordinary_, true);
  std::atomic<unsigned> bad{0};
  on_threads(4, [&](unsigned self) {
    for (unsigned round = 0; round < scaled(400); ++round) {
      loft_heap_t* heap = loft_heap_create();
      std::vector<void*> objects;
      for (unsigned i = 0; i < 50; ++i) objects.push_back(make_in(heap, self + i));
      for (unsigned i = 0; i < 50; ++i) {
        if (!intact(objects[i], self + i, heap_size(self + i))) ++bad;
        if (i % 3 == 0) loft_free(objects[i]);
      }
      table.steps(seed_for(self + round), 20);
      loft_heap_destroy(heap);
      if (round % 64 == self) stats();
      if (round % 16 == self) loft_malloc_trim(0);
    }
  });
  EXPECT_EQ(bad, 0u);
  EXPECT_LE(stats().user_heaps, 2u);
}

// In the child: what was inherited is whole, and both heaps go on.
int child(loft_heap_t* ordinary, loft_heap_t* over_region, const std::vector<void*>& inherited) {
  loft::test::end_what_hangs();
  unsigned faults = 0;
  for (size_t i = 0; i < inherited.size(); ++i) {
    if (!intact(inherited[i], i, heap_size(i))) ++faults;
    loft_free(inherited[i]);
  }
  for (loft_heap_t* heap : {ordinary, over_region}) {
    std::vector<void*> objects;
    for (unsigned i = 0; i < 200; ++i) objects.push_back(make_in(heap, i));
    for (unsigned i = 0; i < 200; ++i) {
      if (objects[i] != nullptr && !intact(objects[i], i, heap_size(i))) ++faults;
      loft_heap_free(heap, objects[i]);
    }
  }
  loft_malloc_trim(0);
  loft_heap_destroy(over_region);
  loft_heap_destroy(ordinary);
  return faults == 0 ? 0 : 1;
}

TEST_F(Heaps, ForksBesideThreadsThatUseThem) {
  Table first(ordinary_, true);
  Table second(over_region_, false);
  std::atomic<bool> stop{false};
  std::thread forking([&] {
    for (unsigned round = 0; round < scaled(40); ++round) {
      std::vector<void*> mine;
      for (unsigned i = 0; i < 50; ++i) mine.push_back(make_in(ordinary_, i));
      const pid_t pid = fork();
      if (pid == 0) _exit(child(ordinary_, over_region_, mine));
      int status = -1;
      EXPECT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_EQ(status, 0);
      for (void* p : mine) loft_heap_free(ordinary_, p);
    }
    stop = true;
  });
  on_threads(3, [&](unsigned self) {
    for (unsigned round = 0; !stop; ++round) {
      first.steps(seed_for(self + round * 64), 50);
      second.steps(seed_for(self + round * 64), 50);
      loft_heap_destroy(loft_heap_create());
      if (round % 16 == self) loft_malloc_trim(0);
    }
  });
  forking.join();
}

}  // namespace
}  // namespace storm
