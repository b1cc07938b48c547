// Heaps of one's own, as a program uses them: over ordinary memory, over a region, over memory that
// two processes share, and from C++.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory_resource>
#include <random>
#include <string>
#include <vector>

#include "background.h"
#include "control.h"
#include "loft/heap.hpp"
#include "loft/loft.h"
#include "surface/heap_stats.h"
#include "surface/shadow.h"
#include "surface/support.h"

namespace {

using surface::aligned;
using surface::opaque;
using surface::stats_of;

// Address space that is given back when it goes.
class Mapping {
 public:
  Mapping(size_t bytes, int protection, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1)
      : at_(mmap(nullptr, bytes, protection, flags, file, 0)), bytes_(bytes) {
    EXPECT_NE(at_, MAP_FAILED);
  }
  ~Mapping() { munmap(at_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void* at() const { return at_; }

 private:
  void* at_;
  size_t bytes_;
};

class Heaps : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    heap_ = loft_heap_create();
    ASSERT_NE(heap_, nullptr);
  }
  void TearDown() override { loft_heap_destroy(heap_); }
  loft_heap_t* heap_ = nullptr;
};

TEST_F(Heaps, Corners) {
  void* a = loft_heap_malloc(heap_, 0);
  void* b = loft_heap_malloc(heap_, 0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  loft_heap_free(heap_, a);
  EXPECT_EQ(loft_heap_realloc(heap_, b, 0), nullptr);
  loft_heap_free(heap_, nullptr);
  EXPECT_EQ(loft_heap_usable_size(heap_, nullptr), 0u);
  loft_heap_destroy(nullptr);
  for (const size_t size : surface::kImpossible) {
    errno = 0;
    EXPECT_EQ(loft_heap_malloc(heap_, opaque(size)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(loft_heap_aligned_alloc(heap_, 4096, opaque(size)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  errno = 0;
  EXPECT_EQ(loft_heap_aligned_alloc(heap_, opaque(size_t{1} << 63), 16), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(loft_heap_aligned_alloc(heap_, opaque(size_t{24}), 16), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(loft_heap_calloc(heap_, opaque(SIZE_MAX / 2), 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* p = loft_heap_malloc(heap_, 100);
  errno = 0;
  EXPECT_EQ(loft_heap_realloc(heap_, p, opaque(SIZE_MAX)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  loft_heap_free(heap_, p);
  EXPECT_EQ(errno, 0);
}

TEST_F(Heaps, RegionsOfNoUse) {
  static char region[4096];
  const auto refused = [](void* at, size_t bytes) {
    errno = 0;
    return loft_heap_create_over(at, bytes) == nullptr && errno == EINVAL;
  };
  EXPECT_TRUE(refused(nullptr, 4096));
  EXPECT_TRUE(refused(region, 0));
  EXPECT_TRUE(refused(region, 255));
  EXPECT_TRUE(refused(region, SIZE_MAX));
  EXPECT_TRUE(refused(reinterpret_cast<void*>(~uintptr_t{0} - 100), 1000));
  loft_heap_t* least = loft_heap_create_over(region, 511);
  ASSERT_NE(least, nullptr);
  EXPECT_EQ(stats_of(least).capacity_bytes, 256u);
  loft_heap_destroy(least);
}

TEST_F(Heaps, LibcsFunctionsTakeItsObjects) {
  for (const size_t size :
       {size_t{1}, size_t{300}, size_t{5000}, size_t{100'000}, size_t{900'000}}) {
    free(loft_heap_malloc(heap_, size));
    ::operator delete(loft_heap_malloc(heap_, size));
    void* p = loft_heap_aligned_alloc(heap_, 64, size);
    EXPECT_EQ(malloc_usable_size(p), loft_heap_usable_size(heap_, p));
    EXPECT_EQ(loft_object_start(static_cast<char*>(p) + size - 1), p);
    p = realloc(p, 2 * size);
    EXPECT_EQ(loft_heap_contains(heap_, p), 1);
    p = loft_heap_realloc(heap_, p, 3 * size);
    free(p);
  }
  EXPECT_EQ(stats_of(heap_).live_objects, 0u);
}

TEST_F(Heaps, Statistics) {
  loft_stats_t all = {};
  all.struct_size = sizeof(all);
  ASSERT_EQ(loft_stats(&all), 0);
  const loft_stats_t before = all;
  EXPECT_GE(before.user_heaps, 1u);
  std::vector<void*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(loft_heap_malloc(heap_, 1000));
  const loft_heap_stats_t with = stats_of(heap_);
  EXPECT_EQ(with.live_objects, 1000u);
  EXPECT_EQ(with.live_bytes, 1000u * 1024);
  EXPECT_GE(with.capacity_bytes, with.live_bytes);
  EXPECT_GT(with.metadata_bytes, 0u);
  ASSERT_EQ(loft_stats(&all), 0);
  EXPECT_EQ(all.user_heap_bytes, before.user_heap_bytes + with.live_bytes);
  EXPECT_GE(all.committed_bytes, before.committed_bytes);
  for (void* p : objects) loft_heap_free(heap_, p);
  EXPECT_EQ(stats_of(heap_).live_bytes, 0u);
  loft_heap_stats_t forgotten = {};
  EXPECT_EQ(loft_heap_stats(heap_, &forgotten), EINVAL);
}

TEST(HeapStatistics, WhatCountsEventsNeverCountsBack) {
  loft_heap_t* heap = loft_heap_create();
  ASSERT_NE(heap, nullptr);
  for (int i = 0; i < 1000; ++i) ASSERT_NE(loft_heap_malloc(heap, 100), nullptr);
  loft_stats_t with = {};
  with.struct_size = sizeof(with);
  ASSERT_EQ(loft_stats(&with), 0);
  loft_heap_destroy(heap);
  loft_stats_t after = {};
  after.struct_size = sizeof(after);
  ASSERT_EQ(loft_stats(&after), 0);
  EXPECT_EQ(after.user_heaps + 1, with.user_heaps);
  EXPECT_GE(after.locks_taken, with.locks_taken);
  EXPECT_GE(after.locks_waited_for, with.locks_waited_for);
}

// What this process has in memory, in bytes.
size_t resident() {
  size_t pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT_EQ(fscanf(file, "%*u %zu", &pages), 1);
  fclose(file);
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(Heaps, DestroyingGivesMemoryBack) {
  constexpr size_t kBytes = size_t{200} << 20;
  loft_purge(nullptr);
  const size_t before = resident();
  loft_heap_t* heap = loft_heap_create();
  std::mt19937 random(1);
  for (size_t bytes = 0; bytes < kBytes;) {
    const size_t size = 1 + random() % (random() % 50 == 0 ? 1'000'000 : 10'000);
    memset(loft_heap_malloc(heap, size), 1, size);
    bytes += size;
  }
  EXPECT_GT(resident(), before + kBytes);
  loft_heap_destroy(heap);
  loft_purge(nullptr);
  EXPECT_LT(resident(), before + (size_t{8} << 20));
}

// Nobody calls loft any more; its background thread does it.
TEST_F(Heaps, WhatIsFreeGoesBackByItself) {
  constexpr size_t kObjects = 20'000;
  constexpr size_t kSize = 10'000;
  ASSERT_EQ(loft_option_set("background", "on"), 0);
  loft_purge(nullptr);
  const size_t before = resident();
  std::vector<void*> objects;
  for (size_t i = 0; i < kObjects; ++i) {
    objects.push_back(loft_heap_malloc(heap_, kSize));
    memset(objects.back(), 1, kSize);
  }
  const size_t filled = resident();
  EXPECT_GT(filled, before + kObjects * kSize);
  for (size_t i = 0; i < kObjects; ++i) {
    if (i % 20 != 0) loft_heap_free(heap_, objects[i]);
  }
  // The objects that stay have three or four pages each, where pages are small.
  const size_t page = getauxval(AT_PAGESZ);
  const size_t wanted = before + kObjects / 20 * (kSize / page + 3) * page + (size_t{8} << 20);
  // What is found free at the end of one decay_ms and of the next.
  loft::test::pass_ms(500);
  EXPECT_GT(resident(), filled / 2);
  loft::test::pass_ms(600);
  EXPECT_LT(resident(), wanted);
  for (size_t i = 0; i < kObjects; i += 20) {
    EXPECT_EQ(*static_cast<char*>(objects[i]), 1);
    loft_heap_free(heap_, objects[i]);
  }
  loft::test::pass_ms(1100);
  EXPECT_EQ(stats_of(heap_).capacity_bytes, 0u);
  EXPECT_EQ(loft_option_set("background", "off"), 0);
}

// ---- Against a shadow

struct Live {
  unsigned char* at;
  size_t size;
  size_t usable;
  uint64_t seed;
};

void at_random(loft_heap_t* heap, uint64_t seed, size_t most_bytes, bool may_be_full) {
  SCOPED_TRACE("LOFT_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<Live> live;
  std::map<uintptr_t, uintptr_t> ends;
  size_t live_bytes = 0;
  const auto check = [&](const Live& object, const unsigned char* at, size_t kept) {
    ASSERT_EQ(surface::first_difference(at, object.usable, kept, object.seed), SIZE_MAX);
  };
  const auto add = [&](void* p, size_t size, size_t alignment) {
    const Live object = {static_cast<unsigned char*>(p), size, loft_heap_usable_size(heap, p),
                         random()};
    ASSERT_GE(object.usable, size);
    ASSERT_TRUE(aligned(p, std::max<size_t>(alignment, 16)));
    ASSERT_EQ(loft_heap_contains(heap, p), 1);
    const auto from = reinterpret_cast<uintptr_t>(p);
    const auto after = ends.lower_bound(from);
    ASSERT_TRUE(after == ends.end() || after->first >= from + object.usable);
    ASSERT_TRUE(after == ends.begin() || std::prev(after)->second <= from);
    ends[from] = from + object.usable;
    live_bytes += object.usable;
    surface::fill(object.at, object.usable, object.seed);
    live.push_back(object);
  };
  const auto take = [&](size_t i) {
    const Live object = live[i];
    live[i] = live.back();
    live.pop_back();
    ends.erase(reinterpret_cast<uintptr_t>(object.at));
    live_bytes -= object.usable;
    return object;
  };
  for (int step = 0; step < 100'000; ++step) {
    const uint64_t kind = random() % 100;
    const size_t size = random() % (kind < 60   ? 300
                                    : kind < 90 ? 5'000
                                    : kind < 98 ? 60'000
                                                : 900'000);
    const uint64_t choice = random() % 10;
    if (live.empty() || (choice < 5 && live_bytes < most_bytes)) {
      const size_t alignment = random() % 3 != 0 ? 1 : size_t{1} << random() % 17;
      const bool zeroed = random() % 4 == 0;
      void* p = zeroed           ? loft_heap_calloc(heap, size, 1)
                : alignment == 1 ? loft_heap_malloc(heap, size)
                                 : loft_heap_aligned_alloc(heap, alignment, size);
      if (p == nullptr) {
        ASSERT_TRUE(may_be_full);
        continue;
      }
      for (size_t i = 0; zeroed && i < size; ++i) ASSERT_EQ(static_cast<char*>(p)[i], 0);
      add(p, size, zeroed ? 1 : alignment);
    } else if (choice < 7) {
      const Live object = take(random() % live.size());
      check(object, object.at, object.usable);
      void* p = loft_heap_realloc(heap, object.at, size + 1);
      if (p == nullptr) {
        ASSERT_TRUE(may_be_full);
        add(object.at, object.size, 1);
        continue;
      }
      check(object, static_cast<unsigned char*>(p), std::min(object.usable, size + 1));
      add(p, size + 1, 1);
    } else {
      const Live object = take(random() % live.size());
      check(object, object.at, object.usable);
      loft_heap_free(heap, object.at);
    }
    if (testing::Test::HasFatalFailure()) return;
    if (step % 1000 == 0) {
      ASSERT_EQ(stats_of(heap).live_bytes, live_bytes);
      ASSERT_EQ(stats_of(heap).live_objects, live.size());
    }
    if (step % 20'000 == 0) loft_malloc_trim(0);
  }
  while (!live.empty()) loft_heap_free(heap, take(0).at);
  EXPECT_EQ(stats_of(heap).live_bytes, 0u);
}

TEST_F(Heaps, AtRandom) { at_random(heap_, loft::test::seed(), 40 << 20, false); }

TEST_F(Heaps, AtRandomOverRegions) {
  for (const size_t bytes : {size_t{3000}, size_t{100'000}, size_t{8} << 20}) {
    const Mapping region(bytes + 100, PROT_READ | PROT_WRITE);
    loft_heap_t* heap = loft_heap_create_over(static_cast<char*>(region.at()) + 77, bytes);
    at_random(heap, loft::test::seed(), bytes, true);
    void* all = loft_heap_malloc(heap, stats_of(heap).capacity_bytes);
    EXPECT_NE(all, nullptr) << "what was freed has joined again";
    loft_heap_destroy(heap);
  }
}

// ---- Regions

// A byte that loft read or wrote would end the process.
TEST_F(Heaps, ARegionIsNeverTouched) {
  constexpr size_t kBytes = size_t{64} << 20;
  const Mapping region(kBytes, PROT_NONE);
  loft_heap_t* heap = loft_heap_create_over(region.at(), kBytes);
  std::mt19937 random(2);
  std::vector<void*> objects(1000, nullptr);
  for (int i = 0; i < 100'000; ++i) {
    void*& p = objects[random() % objects.size()];
    loft_heap_free(heap, p);
    p = loft_heap_malloc(heap, random() % (i % 20 == 0 ? 40'000 : 2'000));
    ASSERT_NE(p, nullptr);
  }
  loft_malloc_trim(0);
  loft_heap_destroy(heap);
}

// A region inside an object of loft's own.
TEST_F(Heaps, ARegionFromMalloc) {
  constexpr size_t kBytes = 1 << 20;
  void* region = malloc(kBytes);
  loft_heap_t* heap = loft_heap_create_over(region, kBytes);
  auto* p = static_cast<char*>(loft_heap_malloc(heap, 1000));
  EXPECT_GE(p, region);
  EXPECT_LE(p + 1000, static_cast<char*>(region) + kBytes);
  EXPECT_EQ(loft_object_start(p), region);
  loft_heap_free(heap, p);
  loft_heap_destroy(heap);
  free(region);
}

// A list in shared memory, linked by offsets: the parent makes it, the child reads and answers.
struct Node {
  uint64_t next;
  uint64_t value;
  char text[200];
};

TEST_F(Heaps, MemoryThatTwoProcessesShare) {
  constexpr size_t kBytes = size_t{1} << 20;
  constexpr uint64_t kNodes = 2000;
  const int file = memfd_create("loft-heaps-test", 0);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    loft::test::end_what_hangs();
    uint64_t first = 0;
    if (read(to_child[0], &first, sizeof(first)) != sizeof(first)) _exit(1);
    auto* base =
        static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    uint64_t expected = 0;
    for (uint64_t at = first; at != 0;) {
      auto* node = reinterpret_cast<Node*>(base + at);
      if (node->value != expected++ || node->text[199] != 'x') _exit(2);
      node->value *= 2;
      at = node->next;
    }
    _exit(expected == kNodes ? 0 : 3);
  }
  const Mapping shared(kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file);
  auto* base = static_cast<char*>(shared.at());
  loft_heap_t* heap = loft_heap_create_over(base, kBytes);
  // At offset 0 stands something that is no node.
  ASSERT_NE(loft_heap_malloc(heap, 300), nullptr);
  std::vector<Node*> nodes;
  std::mt19937 random(3);
  for (uint64_t i = 0; i < kNodes; ++i) {
    void* passing = loft_heap_malloc(heap, random() % 500);
    nodes.push_back(static_cast<Node*>(loft_heap_calloc(heap, 1, sizeof(Node))));
    ASSERT_NE(nodes.back(), nullptr);
    nodes.back()->value = i;
    memset(nodes.back()->text, 'x', sizeof(Node::text));
    loft_heap_free(heap, passing);
  }
  const auto offset = [&](Node* node) {
    return static_cast<uint64_t>(reinterpret_cast<char*>(node) - base);
  };
  for (uint64_t i = 0; i + 1 < kNodes; ++i) nodes[i]->next = offset(nodes[i + 1]);
  const uint64_t first = offset(nodes[0]);
  ASSERT_NE(first, 0u);
  ASSERT_EQ(write(to_child[1], &first, sizeof(first)), static_cast<ssize_t>(sizeof(first)));
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  for (uint64_t i = 0; i < kNodes; ++i) EXPECT_EQ(nodes[i]->value, 2 * i);
  loft_heap_destroy(heap);
  close(to_child[0]);
  close(to_child[1]);
  close(file);
}

// ---- Misuse

using HeapsDeathTest = Heaps;

TEST_F(HeapsDeathTest, HeapsThatAreNone) {
  loft_heap_t* gone = loft_heap_create();
  void* p = loft_heap_malloc(gone, 100);
  loft_heap_destroy(gone);
  EXPECT_DEATH(opaque(loft_heap_malloc(gone, 1)),
               "loft_heap_malloc with a heap that was destroyed");
  EXPECT_DEATH(loft_heap_free(gone, p), "loft_heap_free with a heap that was destroyed");
  EXPECT_DEATH(loft_heap_destroy(gone), "loft_heap_destroy with a heap that was destroyed");
  EXPECT_DEATH(opaque(loft_heap_calloc(opaque<loft_heap_t*>(nullptr), 1, 1)), "or is none: 0x0");
}

TEST_F(HeapsDeathTest, ObjectsOfOthers) {
  loft_heap_t* other = loft_heap_create();
  void* p = loft_heap_malloc(other, 100);
  EXPECT_DEATH(loft_heap_free(heap_, p),
               "loft_heap_free of a foreign pointer .not from this heap.");
  EXPECT_DEATH(opaque(loft_heap_realloc(heap_, p, 10)), "loft_heap_realloc of a foreign pointer");
  EXPECT_DEATH(loft_heap_usable_size(heap_, &p), "loft_heap_usable_size of a foreign pointer");
  loft_heap_free(other, p);
  EXPECT_DEATH(loft_heap_free(other, p), "double free of 0x");
  loft_heap_destroy(other);
}

// Sampled ones lie in a heap of loft's own, which is no heap of the program's.
TEST_F(HeapsDeathTest, ObjectsOfNoHeap) {
  ASSERT_EQ(loft_option_set("sample_bytes", "1"), 0);
  for (const char* profile : {"off", "on"}) {
    for (const size_t size : {100u, 5000u, 50'000u, 6u << 20}) {
      ASSERT_EQ(loft_option_set("profile", profile), 0);
      void* p = malloc(opaque(size));
      ASSERT_EQ(loft_option_set("profile", "off"), 0);
      EXPECT_EQ(loft_heap_contains(heap_, p), 0);
      EXPECT_DEATH(loft_heap_free(heap_, p),
                   "loft_heap_free of a foreign pointer .not from this heap.");
      EXPECT_DEATH(opaque(loft_heap_realloc(heap_, p, 10)),
                   "loft_heap_realloc of a foreign pointer .not from this heap.");
      EXPECT_DEATH(loft_heap_usable_size(heap_, p),
                   "loft_heap_usable_size of a foreign pointer .not from this heap.");
      ASSERT_EQ(loft_option_set("misuse", "continue"), 0);
      loft_heap_free(heap_, p);
      EXPECT_EQ(opaque(loft_heap_realloc(heap_, p, 10)), nullptr);
      EXPECT_EQ(loft_heap_usable_size(heap_, p), 0u);
      ASSERT_EQ(loft_option_set("misuse", "stop"), 0);
      EXPECT_GE(malloc_usable_size(p), size);
      free(p);
    }
  }
  EXPECT_EQ(stats_of(heap_).live_objects, 0u);
}

// ---- C++

TEST(HeapResource, PmrContainers) {
  loft::heap_resource heap;
  {
    std::pmr::vector<std::pmr::string> texts(&heap);
    for (int i = 0; i < 1000; ++i)
      texts.emplace_back("the text with the number " + std::to_string(i));
    std::pmr::map<int, std::pmr::string> by_number(&heap);
    for (int i = 0; i < 1000; ++i) by_number[i] = texts[static_cast<size_t>(i)];
    EXPECT_EQ(loft_heap_contains(heap.get(), texts[5].data()), 1);
    EXPECT_EQ(by_number[999], "the text with the number 999");
    EXPECT_GT(stats_of(heap.get()).live_objects, 3000u);
    void* p = heap.allocate(100, 4096);
    EXPECT_TRUE(aligned(p, 4096));
    heap.deallocate(p, 100, 4096);
  }
  EXPECT_EQ(stats_of(heap.get()).live_objects, 0u);
  loft::heap_resource other;
  EXPECT_TRUE(heap == heap);
  EXPECT_FALSE(heap == other);
}

TEST(HeapResource, ThrowsWhenItIsFull) {
  alignas(256) static char region[4096];
  loft::heap_resource heap(region, sizeof(region));
  EXPECT_THROW(std::pmr::vector<char>(5000, &heap), std::bad_alloc);
  std::pmr::vector<char> fits(3000, &heap);
  EXPECT_GE(fits.data(), region);
  EXPECT_THROW(loft::heap_resource(nullptr, 10), std::bad_alloc);
}

}  // namespace
