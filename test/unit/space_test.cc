// The tables beside the window, and large objects.
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "control.h"
#include "heap/large.h"
#include "os/os.h"
#include "space/free_spans.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span.h"
#include "space/window.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::number;
using test::reads_zero;

class SpaceTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(span::initialise()); }

 private:
  test::DefaultOptions defaults_;
};

// At the place that the tests choose, and where the system says, as in programs.
TEST_F(SpaceTest, TheWindowOpensWhereTheSystemSays) {
  const auto is_planned = [](uintptr_t base) { return base >> 44 == 1 || base >> 38 == 0; };
  const Window before = window;
  EXPECT_TRUE(is_planned(before.heap.base)) << address(before.heap.base);
  EXPECT_TRUE(test::child_passes([&] {
    if (!test::system::may_try_long_mappings()) return true;
    test::let_the_system_place();
    if (!open_window()) return false;
    const HeapStep step = grow_heap(window.heap.base, size_t{4} << 20);
    memset(address(step.base), 1, size_t{4} << 20);
    return step.base == window.heap.base && !is_planned(step.base) &&
           (step.base < before.pagemap.base || step.base >= before.heap.end);
  }));
}

using MetadataTest = SpaceTest;

TEST_F(MetadataTest, ZeroedAndOnLinesOfTheirOwn) {
  std::mt19937 random(4);
  struct Block {
    char* at;
    size_t bytes;
    bool operator<(const Block& other) const { return at < other.at; }
  };
  std::set<Block> live;
  size_t used = metadata::used_bytes();
  for (int step = 0; step < 5000; ++step) {
    if (live.size() > 100 || (live.size() > 10 && random() % 2 == 0)) {
      const auto it = std::next(live.begin(), static_cast<long>(random() % live.size()));
      metadata::release(it->at, it->bytes);
      used -= round_up(it->bytes, kMetadataUnit);
      live.erase(it);
    } else {
      const size_t bytes = 1 + random() % (random() % 8 == 0 ? kMetadataMaxBlock : 700);
      auto* at = static_cast<char*>(metadata::allocate(bytes));
      ASSERT_NE(at, nullptr);
      const size_t whole = round_up(bytes, kMetadataUnit);
      ASSERT_EQ(number(at) % kMetadataUnit, 0u);
      ASSERT_TRUE(reads_zero(at, whole)) << bytes;
      ASSERT_FALSE(pagemap.contains(at));
      const auto next = live.lower_bound(Block{at, 0});
      ASSERT_TRUE(next == live.end() || at + whole <= next->at);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->at + round_up(std::prev(next)->bytes, kMetadataUnit) <= at);
      memset(at, 0xff, whole);
      live.insert(Block{at, bytes});
      used += whole;
    }
    ASSERT_EQ(metadata::used_bytes(), used);
  }
  for (const Block& block : live) metadata::release(block.at, block.bytes);
}

TEST_F(MetadataTest, BlocksAreUsedAgainForTheirSize) {
  void* first = metadata::allocate(200);
  void* second = metadata::allocate(200);
  metadata::release(first, 200);
  metadata::release(second, 200);
  EXPECT_EQ(metadata::allocate(193), second);
  EXPECT_EQ(metadata::allocate(256), first);
  void* third = metadata::allocate(256);
  EXPECT_NE(third, first);
  EXPECT_NE(third, second);
  for (void* block : {first, second, third}) metadata::release(block, 256);
}

TEST_F(MetadataTest, IndexRoundTrip) {
  std::vector<void*> blocks;
  for (size_t bytes : {64, 128, 1000, 32768}) {
    void* block = metadata::allocate(bytes);
    const uint32_t index = metadata::index_of(block);
    EXPECT_NE(index, 0u) << "nothing";
    EXPECT_TRUE(metadata::contains(index));
    EXPECT_EQ(metadata::at_index<void>(index), block);
    metadata::release(block, bytes);
  }
  EXPECT_FALSE(metadata::contains(0));
  EXPECT_FALSE(metadata::contains(UINT32_MAX));
  const size_t units = (window.metadata.committed - window.metadata.base) / kMetadataUnit;
  EXPECT_TRUE(metadata::contains(static_cast<uint32_t>(units - 1)));
  EXPECT_FALSE(metadata::contains(static_cast<uint32_t>(units)));
}

// The ends of the closed mappings among the tables of the window and in front of it. (The
// sanitizers close memory of their own, elsewhere.)
std::set<uintptr_t> closed_ends() {
  std::set<uintptr_t> ends;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" ---p ") == std::string::npos) continue;
    const uintptr_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (window.pagemap.base < end && end <= window.heap.base) ends.insert(end);
  }
  return ends;
}

TEST_F(MetadataTest, GapsLieInFrontOfMetadataAndOfTheHeap) {
  EXPECT_GE(window.metadata.base, window.pagemap.end + kGranule);
  EXPECT_GE(window.heap.base, window.nulls + 2 * kGranule);
  close_gaps();
  const std::set<uintptr_t> ends = closed_ends();
  EXPECT_TRUE(ends.contains(window.metadata.base));
  EXPECT_TRUE(ends.contains(window.heap.base));
  // What is closed stays so, and all else works.
  close_gaps();
  EXPECT_EQ(closed_ends(), ends);
  void* const block = metadata::allocate(64);
  EXPECT_NE(block, nullptr);
  metadata::release(block, 64);
}

using PagemapTest = SpaceTest;

TEST_F(PagemapTest, EntriesKeepTheirParts) {
  for (const HeapId owner : {HeapId{0}, HeapId{1}, HeapId{65534}}) {
    for (const uint32_t index : {0u, 1u, 0x12345678u, UINT32_MAX}) {
      for (const uint16_t bin : {uint16_t{kNothing}, uint16_t{kLarge}, uint16_t{kFreeSpan},
                                 bin_offset(0), bin_offset(kSizeClasses - 1)}) {
        const Entry entry(owner, bin, index);
        EXPECT_EQ(entry.owner(), owner);
        EXPECT_EQ(entry.index(), index);
        EXPECT_EQ(entry.bin(), bin);
        EXPECT_EQ(entry.is_slab(), bin >= kFirstBinOffset);
      }
    }
  }
  for (SizeClass c = 0; c < kSizeClasses; ++c) EXPECT_EQ(class_of_bin(bin_offset(c)), c);
}

TEST_F(PagemapTest, PositionsOfTheHeap) {
  const uintptr_t first = window.heap.base;
  const uintptr_t end = window.heap.committed;
  EXPECT_EQ(pagemap.position(address(first)), 0u);
  EXPECT_EQ(pagemap.position(address(end - kAlignment)), pagemap.limit.get() - 1);
  EXPECT_EQ(pagemap.position(address(first + kGranule)), kGranule / kAlignment);
  EXPECT_TRUE(pagemap.contains(address(first)));
  EXPECT_TRUE(pagemap.contains(address(end - 1)));
  EXPECT_FALSE(pagemap.contains(address(first - 1)));
  EXPECT_FALSE(pagemap.contains(address(end)));
}

TEST_F(PagemapTest, OnePositionComparisonRefusesAllElse) {
  int local = 0;
  const auto refused = [](uintptr_t p) {
    return !pagemap.limit.contains(pagemap.position(address(p)));
  };
  for (const uintptr_t p :
       {uintptr_t{0}, uintptr_t{1}, uintptr_t{16}, uintptr_t{4096}, window.heap.base - 16,
        window.heap.committed, window.heap.end, number(&local) & ~uintptr_t{15},
        window.metadata.base, window.pagemap.base, UINTPTR_MAX - 15, UINTPTR_MAX}) {
    EXPECT_TRUE(refused(p)) << p;
  }
  for (const uintptr_t start :
       {window.heap.base, window.heap.committed - 16,
        window.heap.base + (window.heap.committed - window.heap.base) / 2}) {
    EXPECT_FALSE(refused(start));
    for (uintptr_t off = 1; off < 16; ++off) EXPECT_TRUE(refused(start + off)) << off;
  }
}

TEST_F(PagemapTest, TheTableIsMappedForTheWholeHeap) {
  for (uintptr_t p = window.heap.base; p < window.heap.committed; p += kGranule) {
    const Entry entry = pagemap.of(address(p));
    EXPECT_TRUE(entry.bin() != kNothing || entry.owner() == kNoHeap) << p;
  }
}

class LargeTest : public SpaceTest {
 protected:
  void SetUp() override {
    SpaceTest::SetUp();
    // Nothing resident is left from another test.
    span::purge(0);
  }

  static Large* of(void* p) {
    EXPECT_EQ(pagemap.of(p).bin(), kLarge);
    return large::at(pagemap.of(p));
  }
  static void release(void* p) { large::release(of(p)); }
  static void* allocate(size_t bytes, size_t alignment = kGranule) {
    void* p = test::allocate_large(bytes, alignment, false);
    EXPECT_NE(p, nullptr);
    return p;
  }

  // Keeps the granule behind an object in use, so that it cannot grow where it is.
  class Wall {
   public:
    explicit Wall(void* p) {
      const uintptr_t end = of(p)->base + (of(p)->granules << kGranuleLog);
      if (!span::extend(end, 1)) return;  // it is in use
      pagemap.fill(end, 1, Entry(kNoHeap, kLarge, 1));
      at_ = end;
    }
    ~Wall() {
      if (at_ != 0) span::release(at_, 1, true);
    }
    Wall(const Wall&) = delete;
    Wall& operator=(const Wall&) = delete;

   private:
    uintptr_t at_ = 0;
  };

  // As reallocate does: by moving pages, or else by a copy. Something stands behind the object.
  static void* grow(void* p, size_t bytes) {
    const Wall wall(p);
    if (void* moved = large::resize(of(p), bytes); moved != nullptr) {
      EXPECT_NE(moved, p);
      return moved;
    }
    void* fresh = allocate(bytes);
    memcpy(fresh, p, of(p)->bytes);
    release(p);
    return fresh;
  }

  // A different number in every eight bytes.
  static void fill(void* p, size_t bytes) {
    auto* words = static_cast<uint64_t*>(p);
    for (size_t i = 0; i < bytes / 8; ++i) words[i] = i * 0x9E3779B97F4A7C15u + 1;
  }
  static bool holds(const void* p, size_t bytes) {
    const auto* words = static_cast<const uint64_t*>(p);
    for (size_t i = 0; i < bytes / 8; ++i) {
      if (words[i] != i * 0x9E3779B97F4A7C15u + 1) return false;
    }
    return true;
  }
};

TEST_F(LargeTest, RoundedToPages) {
  const size_t page = os::page_size();
  for (const size_t bytes : {size_t{32769}, 10 * page, 10 * page + 1, size_t{1000000}}) {
    const size_t live = large::totals().bytes;
    void* p = allocate(bytes);
    EXPECT_EQ(of(p)->bytes, round_up(bytes, page));
    EXPECT_EQ(large::totals().bytes - live, round_up(bytes, page));
    fill(p, of(p)->bytes);
    // Every granule of it, to its last byte, leads to it.
    EXPECT_EQ(of(static_cast<char*>(p) + bytes - 1), of(p));
    release(p);
    EXPECT_EQ(large::totals().bytes, live);
    EXPECT_NE(pagemap.of(p).bin(), kLarge);
  }
}

TEST_F(LargeTest, Aligned) {
  std::vector<void*> objects;
  for (size_t alignment = kGranule; alignment <= size_t{64} << 20; alignment *= 2) {
    for (const size_t bytes : {size_t{1}, size_t{100'000}}) {
      void* p = allocate(bytes, alignment);
      EXPECT_EQ(number(p) % alignment, 0u);
      memset(p, 1, bytes);
      objects.push_back(p);
    }
  }
  for (void* p : objects) release(p);
}

TEST_F(LargeTest, ImpossibleSizesAndAlignments) {
  const size_t live = large::totals().bytes;
  const size_t metadata = metadata::used_bytes();
  EXPECT_EQ(test::allocate_large(PTRDIFF_MAX - kGranule, kGranule, false), nullptr);
  EXPECT_EQ(test::allocate_large(window.heap.end - window.heap.base + 1, kGranule, true), nullptr);
  EXPECT_EQ(test::allocate_large(100'000, size_t{1} << 62, false), nullptr);
  EXPECT_EQ(large::totals().bytes, live);
  EXPECT_EQ(metadata::used_bytes(), metadata);
  void* p = allocate(100'000);
  fill(p, 100'000);
  EXPECT_EQ(large::resize(of(p), PTRDIFF_MAX - kGranule), nullptr);
  EXPECT_TRUE(holds(p, 100'000));
  release(p);
}

TEST_F(LargeTest, ZeroedAlthoughItsPagesWereUsed) {
  // On both sides of the size from which only pages that hold memory are cleared.
  for (const size_t bytes : {size_t{65536}, size_t{800'000}, size_t{1 << 20}, size_t{5 << 20}}) {
    void* p = allocate(bytes);
    memset(p, 0xee, of(p)->bytes);
    release(p);
    const size_t hits = large::totals().cache_hits;
    void* again = test::allocate_large(bytes, kGranule, true);
    ASSERT_EQ(large::totals().cache_hits, hits + 1) << "else this tests nothing";
    EXPECT_TRUE(reads_zero(again, of(again)->bytes)) << bytes;
    release(again);
  }
}

TEST_F(LargeTest, SteadyLoopMakesNoSystemCall) {
  // Of fresh memory, and the first one with something left behind it.
  for (int i = 0; i < 2; ++i) release(allocate(800'000));
  const os::Calls before = os::calls();
  for (int i = 0; i < 100; ++i) {
    void* p = allocate(800'000);
    memset(p, 1, 800'000);
    release(p);
  }
  EXPECT_EQ(os::calls().maps, before.maps);
  EXPECT_EQ(os::calls().discards, before.discards);
}

TEST_F(LargeTest, GrowsInPlace) {
  void* p = allocate(100'000);
  fill(p, 100'000);
  // Within its granules, then into the free ones behind it.
  for (const size_t bytes : {size_t{120'000}, size_t{140'000}, size_t{1'000'000}}) {
    ASSERT_EQ(large::resize(of(p), bytes), p) << bytes;
    EXPECT_EQ(of(p)->bytes, round_up(bytes, os::page_size()));
    EXPECT_EQ(of(static_cast<char*>(p) + bytes - 1), of(p));
    EXPECT_TRUE(holds(p, 100'000));
  }
  memset(p, 1, 1'000'000);
  release(p);
}

TEST_F(LargeTest, ShrinksAndGivesGranulesBack) {
  void* p = allocate(20 * kGranule);
  fill(p, 20 * kGranule);
  const size_t dirty = span::totals().dirty;
  ASSERT_EQ(large::resize(of(p), 5 * kGranule), p);
  EXPECT_EQ(of(p)->bytes, 5 * kGranule);
  EXPECT_EQ(span::totals().dirty - dirty, 15 * kGranule);
  EXPECT_TRUE(holds(p, 5 * kGranule));
  void* tail = allocate(15 * kGranule);
  EXPECT_EQ(number(tail), number(p) + 5 * kGranule);
  release(tail);
  release(p);
}

TEST_F(LargeTest, GrowsByMovingItsPages) {
  const size_t page = os::page_size();
  void* p = allocate(300'000);
  fill(p, 300'000);
  {
    const Wall wall(p);
    void* moved = large::resize(of(p), 600'000);
    if (moved == nullptr) GTEST_SKIP() << "the kernel cannot move pages";
    ASSERT_NE(moved, p);
    p = moved;
  }
  EXPECT_TRUE(holds(p, 300'000));
  EXPECT_EQ(of(p)->bytes, round_up(600'000, page));
  memset(static_cast<char*>(p) + 300'000, 1, 300'000);
  for (size_t bytes = 1'200'000; bytes <= size_t{40} << 20; bytes *= 2) {
    p = grow(p, bytes);
    ASSERT_TRUE(holds(p, 300'000));
    EXPECT_EQ(static_cast<char*>(p)[bytes / 2 - 1], 1);
    EXPECT_EQ(of(p)->bytes, round_up(bytes, page));
    EXPECT_EQ(of(static_cast<char*>(p) + bytes - 1), of(p));
    memset(static_cast<char*>(p) + bytes / 2, 1, bytes / 2);
  }
  // Shrunk where it is.
  ASSERT_EQ(large::resize(of(p), 400'000), p);
  EXPECT_TRUE(holds(p, 300'000));
  release(p);
}

TEST_F(LargeTest, MovingLosesNoAddressSpace) {
  for (int round = 0; round < 20; ++round) {
    void* p = allocate(300'000);
    for (size_t bytes = 600'000; bytes <= 5'000'000; bytes *= 2) {
      p = grow(p, bytes);
      memset(p, 1, bytes);
    }
    release(p);
    // What was left behind reads as zero when it is called so.
    void* fresh = test::allocate_large(3'000'000, kGranule, true);
    ASSERT_TRUE(reads_zero(fresh, 3'000'000));
    release(fresh);
  }
  // No object lives: from its first granule on, the window is all free spans.
  span::purge(0);
  size_t free_bytes = 0;
  for (uintptr_t base = window.heap.base; free_bytes < span::totals().clean;) {
    const Entry entry = pagemap.of(address(base));
    ASSERT_EQ(entry.bin(), kFreeSpan);
    const Span* span = metadata::at_index<Span>(entry.index());
    ASSERT_EQ(span->base, base);
    free_bytes += span->granules << kGranuleLog;
    base += span->granules << kGranuleLog;
  }
  EXPECT_EQ(free_bytes, span::totals().clean);
}

// The kernel's mappings that the heap is made of.
size_t heap_mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    const uintptr_t base = std::stoull(line, nullptr, 16);
    count += base >= window.heap.base && base < window.heap.committed ? 1 : 0;
  }
  return count;
}

// Objects that were moved into places which other objects stand between.
class MovedTest : public LargeTest {
 protected:
  static constexpr size_t kPlace = size_t{1} << 20;

  void move_into_places(size_t count) {
    std::vector<void*> places;
    for (size_t i = 0; i < count; ++i) {
      places.push_back(allocate(kPlace));
      between_.push_back(allocate(kPlace));
    }
    for (void* place : places) release(place);
    for (size_t i = 0; i < count; ++i) {
      void* p = allocate(300'000);
      fill(p, 300'000);
      moved_.push_back(grow(p, kPlace));
    }
  }
  void release_moved() {
    for (void* p : moved_) release(p);  // and those that were copied
    moved_.clear();
  }
  void TearDown() override {
    release_moved();
    for (void* p : between_) release(p);
  }

  // Before Linux 6.17, one that lies in several mappings stays where it is.
  static void resize_or_leave(void*& p, size_t size) {
    void* const moved = large::resize(of(p), size);
    if (moved != nullptr) {
      p = moved;
    } else {
      EXPECT_FALSE(os::can_move_pages(true));
    }
  }

  std::vector<void*> moved_;

 private:
  std::vector<void*> between_;
};

TEST_F(MovedTest, NoMappingIsLeftBehind) {
  const size_t before = heap_mappings();
  move_into_places(40);
  if (!os::can_move_pages(false)) GTEST_SKIP() << "the kernel cannot move pages";
  EXPECT_GT(heap_mappings(), before + 40);
  release_moved();
  EXPECT_LE(heap_mappings(), before + 1);
}

TEST_F(MovedTest, SoManyThatMappingsStayFew) {
  move_into_places(400);
  if (!os::can_move_pages(false)) GTEST_SKIP() << "the kernel cannot move pages";
  EXPECT_GT(heap_mappings(), 200u);
  EXPECT_LT(heap_mappings(), 600u);
  // One that is very long goes on being moved, and so does one that was.
  constexpr size_t kLong = size_t{65} << 20;
  moved_.push_back(allocate(300'000));
  fill(moved_.back(), 300'000);
  {
    const Wall wall(moved_.back());
    resize_or_leave(moved_.back(), kLong);
  }
  {
    const Wall wall(moved_.front());
    resize_or_leave(moved_.front(), 2 * kPlace);
  }
  for (void* p : moved_) EXPECT_TRUE(holds(p, 300'000));
  release_moved();
  // Others have their turn again.
  void* p = allocate(300'000);
  {
    const Wall wall(p);
    void* q = large::resize(of(p), kPlace);
    EXPECT_NE(q, nullptr);
    if (q != nullptr) p = q;
  }
  release(p);
}

TEST_F(LargeTest, SmallOnesAreLeftToBeCopied) {
  void* p = allocate(70'000);
  const Wall wall(p);
  fill(p, 70'000);
  EXPECT_EQ(large::resize(of(p), 200'000), nullptr);
  EXPECT_EQ(of(p)->bytes, round_up(70'000, os::page_size()));
  EXPECT_TRUE(holds(p, 70'000));
  release(p);
}

TEST_F(LargeTest, RandomSizesKeepTheirBytes) {
  std::mt19937 random(5);
  struct Object {
    void* at;
    size_t bytes;
  };
  std::vector<Object> live;
  const auto size = [&] { return 8 * (4097 + random() % (random() % 8 == 0 ? 200'000 : 20'000)); };
  for (int step = 0; step < 600; ++step) {
    const size_t which = live.empty() ? 0 : random() % live.size();
    switch (live.size() < 4 ? 0 : live.size() > 30 ? 1 : random() % 4) {
      case 0: {
        const size_t bytes = size();
        const bool zeroed = random() % 2 == 0;
        void* p = test::allocate_large(bytes, kGranule, zeroed);
        ASSERT_NE(p, nullptr);
        if (zeroed) {
          ASSERT_TRUE(reads_zero(p, bytes));
        }
        fill(p, bytes);
        live.push_back({p, bytes});
        break;
      }
      case 1:
        ASSERT_TRUE(holds(live[which].at, live[which].bytes));
        release(live[which].at);
        live[which] = live.back();
        live.pop_back();
        break;
      default: {
        Object& object = live[which];
        const size_t bytes = size();
        void* p = large::resize(of(object.at), bytes);
        if (p == nullptr) {
          ASSERT_TRUE(holds(object.at, object.bytes));
          break;
        }
        ASSERT_TRUE(holds(p, std::min(bytes, object.bytes)));
        fill(p, bytes);
        object = {p, bytes};
        break;
      }
    }
  }
  for (const Object& object : live) {
    EXPECT_TRUE(holds(object.at, object.bytes));
    release(object.at);
  }
}

}  // namespace
}  // namespace loft
