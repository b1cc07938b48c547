// Memory ahead of its use, under whichever setting the system has for huge pages: what grows
// densely gets it, nothing else does, and it costs no more than one huge page.
// grows_machine_test.cc sets each of the settings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "storm/support.h"

namespace storm {
namespace {

constexpr size_t kHuge = size_t{2} << 20;
constexpr size_t kPage = 4096;

// Faults that the processor took in this process from now on; populated pages are none.
class Traps {
 public:
  Traps() {
    perf_event_attr what{};
    what.type = PERF_TYPE_SOFTWARE;
    what.size = sizeof what;
    what.config = PERF_COUNT_SW_PAGE_FAULTS;
    file_ = static_cast<int>(syscall(SYS_perf_event_open, &what, 0, -1, -1, 0));
  }
  ~Traps() { close(file_); }
  bool counted() const { return file_ >= 0; }
  uint64_t count() const {
    uint64_t number = 0;
    return read(file_, &number, sizeof number) == sizeof number ? number : 0;
  }

 private:
  int file_;
};

unsigned mappings_of_heap(const loft_stats_t& s) {
  std::ifstream file("/proc/self/maps");
  unsigned lines = 0;
  for (std::string line; std::getline(file, line);) {
    const uint64_t begin = std::stoull(line, nullptr, 16);
    lines += begin >= s.address_begin && begin < s.address_end;
  }
  return lines;
}

// The flags of the mappings of the heap: "hg" is the advice for huge pages.
bool is_any_advised() {
  std::ifstream file("/proc/self/smaps");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmFlags") && line.find(" hg") != std::string::npos) return true;
  }
  return false;
}

// Objects of one size, each written once in every `step` bytes.
std::vector<void*> grow(size_t bytes, size_t size, size_t step) {
  std::vector<void*> objects;
  objects.reserve(bytes / size);
  for (size_t i = 0; i < bytes / size; ++i) {
    auto* object = static_cast<char*>(loft_malloc(size));
    if (object == nullptr) break;
    for (size_t at = 0; at < size; at += step) object[at] = 1;
    objects.push_back(object);
  }
  return objects;
}

// The system's setting for huge pages; empty if it has none.
std::string setting() {
  std::string text;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), text);
  const size_t begin = text.find('[') + 1;
  return text.substr(begin, text.find(']') - begin);
}

// Each test works in a process of its own, with a young heap.
class Grows : public testing::Test {
 protected:
  void SetUp() override {
    if (sysconf(_SC_PAGESIZE) != static_cast<long>(kPage)) GTEST_SKIP() << "for pages of 4 KiB";
    if (setting().empty()) GTEST_SKIP() << "the system has no huge pages";
  }
};

TEST_F(Grows, DenselyWithFewFaults) {
  in_child([] {
    constexpr size_t kBytes = size_t{64} << 20;
    std::vector<void*> objects(kBytes / 256);  // touched, as it is not loft's
    const Traps traps;
    const uint64_t first = traps.count();
    for (void*& object : objects) {
      object = loft_malloc(256);
      memset(object, 1, 256);
    }
    // The shadow of a sanitizer is touched for the first time, too.
    if (traps.counted() && kSlowdown == 1) {
      EXPECT_LT(traps.count() - first, kBytes / kPage / 8);
    }
    const loft_stats_t s = stats();
    expect_identity(s);
    EXPECT_LT(s.resident_bytes, kBytes + 2 * kHuge) << "one huge page, and loft's tables";
    EXPECT_LT(mappings_of_heap(s), kBytes / kHuge / 4) << "the advice is taken back";
    EXPECT_FALSE(is_any_advised()) << "the system's thread would merge what was given back";
    if (setting() == "never") {
      EXPECT_EQ(s.huge_page_bytes, 0u);
    }
  });
}

TEST_F(Grows, SparselyByNoMoreThanIsTouched) {
  in_child([] {
    constexpr size_t kBytes = size_t{256} << 20;
    constexpr size_t kSize = 20480;
    const size_t before = stats().resident_bytes;
    const auto objects = grow(kBytes, kSize, kSize);
    EXPECT_LT(stats().resident_bytes - before, objects.size() * 2 * kPage + 2 * kHuge);
    expect_identity(stats());
  });
}

TEST_F(Grows, LongObjectsLieOnPagesOfTheirOwn) {
  in_child([] {
    const auto objects = grow(32 << 20, 256, 64);
    const size_t before = stats().resident_bytes;
    const auto longer = grow(64 << 20, 4 << 20, 1 << 20);
    EXPECT_LT(stats().resident_bytes - before, 64u * 4 * kPage);
  });
}

// A program may never come to write them.
TEST_F(Grows, WhatIsNotWrittenHasNoMemory) {
  in_child([] {
    const auto objects = grow(32 << 20, 256, 64);
    for (const size_t size : {10000, 20000, 32000}) {
      const size_t before = stats().resident_bytes;
      for (size_t bytes = 0; bytes < 64u << 20; bytes += size)
        ASSERT_NE(loft_malloc(size), nullptr);
      EXPECT_LT(stats().resident_bytes - before, 2 * kHuge) << size;
    }
    const size_t before = stats().resident_bytes;
    for (size_t bytes = 0; bytes < 64u << 20; bytes += 20480) {
      ASSERT_NE(loft_calloc(1, 20480), nullptr);
    }
    EXPECT_LT(stats().resident_bytes - before, 2 * kHuge) << "of calloc";
  });
}

// Each thread's heap has a last slab, which may stay empty.
TEST_F(Grows, InManyHeapsByLittleMoreThanIsTouched) {
  in_child([] {
    constexpr unsigned kThreads = 48;
    constexpr size_t kEach = size_t{1} << 20;
    std::vector<std::vector<void*>> objects(kThreads);
    std::atomic<unsigned> grown{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        objects[i] = grow(kEach + i * 1000, 256, 64);
        for (unsigned now = ++grown; now != kThreads; now = grown) grown.wait(now);
        grown.notify_all();
      });
    }
    for (std::thread& thread : threads) thread.join();
    // What is ahead, and what is about to be.
    EXPECT_LT(stats().resident_bytes, kThreads * (kEach + 64'000) + 3 * kHuge);
    expect_identity(stats());
  });
}

TEST_F(Grows, NothingIsAheadNearALimit) {
  in_child([] {
    ASSERT_EQ(loft_option_set("soft_limit", "4M"), 0);
    const auto objects = grow(32 << 20, 256, 64);
    EXPECT_EQ(stats().huge_page_bytes, 0u);
    EXPECT_LE(stats().free_span_bytes, 256u << 10);
    ASSERT_EQ(loft_option_set("soft_limit", "0"), 0);
    ASSERT_EQ(loft_option_set("hard_limit", "48M"), 0);
    const auto more = grow(64 << 20, 256, 64);
    EXPECT_LT(more.size(), (64u << 20) / 256) << "refused";
    EXPECT_LE(stats().committed_bytes, 48u << 20);
    EXPECT_GT(stats().committed_bytes, 47u << 20) << "what was ahead has made way";
  });
}

TEST_F(Grows, NeverMeansAsTouched) {
  in_child([] {
    ASSERT_EQ(loft_option_set("thp", "never"), 0);
    const auto objects = grow(32 << 20, 256, 64);
    const loft_stats_t s = stats();
    EXPECT_EQ(s.huge_page_bytes, 0u);
    EXPECT_EQ(s.free_span_bytes, 0u);
  });
}

TEST_F(Grows, HalfFreeHugePagesAreGivenBack) {
  in_child([] {
    constexpr size_t kBytes = size_t{64} << 20;
    std::vector<void*> objects = grow(kBytes, 256, 64);
    // Every other stretch of 128 KiB.
    constexpr size_t kStretch = (128 << 10) / 256;
    for (size_t i = 0; i < objects.size(); ++i) {
      if (i / kStretch % 2 == 0) loft_free(objects[i]);
    }
    loft_purge(nullptr);
    const loft_stats_t s = stats();
    expect_identity(s);
    EXPECT_LT(s.resident_bytes, kBytes / 2 + 2 * kHuge);
    EXPECT_EQ(s.huge_page_bytes, 0u) << "none is whole any more";
    EXPECT_FALSE(is_any_advised());
  });
}

TEST_F(Grows, WhatIsAheadIsGivenBack) {
  in_child([] {
    const auto objects = grow(32 << 20, 256, 64);
    loft_purge(nullptr);
    const loft_stats_t s = stats();
    EXPECT_EQ(s.free_span_bytes, 0u);
    EXPECT_LT(s.resident_bytes, (32u << 20) + kHuge);
  });
}

TEST_F(Grows, InTheChildOfAFork) {
  in_child([] {
    const auto objects = grow(32 << 20, 256, 64);
    in_child([&] {
      const auto more = grow(32 << 20, 256, 64);
      for (void* p : objects) loft_free(p);
      for (void* p : more) loft_free(p);
      loft_purge(nullptr);
      expect_identity(stats());
      EXPECT_EQ(stats().live_bytes, 0u);
    });
  });
}

}  // namespace
}  // namespace storm
