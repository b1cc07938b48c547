// Blocks against a shadow of their extent, over address space that nobody may touch.
#include "heaps/blocks.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "os/os.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::number;

// An extent of `units`, whose pages may not be accessed, and its blocks.
class Fixture {
 public:
  explicit Fixture(size_t units)
      : bytes_(round_up(units << kUnitLog, kGranule)),
        map_(new uint32_t[units]()),
        extent_{number(os::reserve(bytes_)), units, map_.get(), 0, nullptr, nullptr, nullptr} {
    EXPECT_TRUE(blocks.add(&extent_, false));
  }
  ~Fixture() {
    blocks.check(&extent_);
    blocks.clear();
    os::unmap(address(extent_.base), bytes_);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  Extent* extent() { return &extent_; }
  bool holds(uintptr_t from, size_t bytes) const {
    return from >= extent_.base && from + bytes <= extent_.end();
  }
  ObjectAt at(const void* p) const { return Blocks::object_at(&extent_, p); }
  void free(void* p) { blocks.free(at(p)); }

  Blocks blocks;

 private:
  size_t bytes_;
  std::unique_ptr<uint32_t[]> map_;
  Extent extent_;
};

class BlocksTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(span::initialise()); }
};

// What is allocated, by address.
class Shadow {
 public:
  struct Object {
    uintptr_t start;
    size_t bytes;
  };

  size_t count() const { return objects_.size(); }
  size_t bytes() const { return bytes_; }
  Object at(size_t i) const { return objects_[i]; }

  // False if it overlaps another.
  bool add(Object object) {
    const auto after = ends_.lower_bound(object.start);
    if (after != ends_.end() && after->first < object.start + object.bytes) return false;
    if (after != ends_.begin() && std::prev(after)->second > object.start) return false;
    ends_[object.start] = object.start + object.bytes;
    objects_.push_back(object);
    bytes_ += object.bytes;
    return true;
  }
  Object remove(size_t i) {
    const Object object = objects_[i];
    objects_[i] = objects_.back();
    objects_.pop_back();
    ends_.erase(object.start);
    bytes_ -= object.bytes;
    return object;
  }

 private:
  std::vector<Object> objects_;
  std::map<uintptr_t, uintptr_t> ends_;
  size_t bytes_ = 0;
};

size_t random_size(std::mt19937_64& random, size_t longest) {
  switch (random() % 4) {
    case 0:
      return 1 + random() % 128;
    case 1:
      return 1 + random() % 1024;
    case 2:
      return 1 + random() % 8192;
    default:
      return 1 + random() % longest;
  }
}

struct Case {
  size_t units;
  size_t longest;
};

class BlocksAtRandom : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { ASSERT_TRUE(span::initialise()); }
};

TEST_P(BlocksAtRandom, AgainstAShadow) {
  const auto [units, longest] = GetParam();
  Fixture fixture(units);
  Shadow shadow;
  std::mt19937_64 random(units);
  const auto check_one = [&](Shadow::Object object) {
    for (const size_t offset : {size_t{0}, object.bytes / 2, object.bytes - 1}) {
      const ObjectAt found = fixture.at(address(object.start + offset));
      // Of a long one the inside is not named.
      if (found.start == 0 && offset != 0 && object.bytes > kNamedUnits << kUnitLog) continue;
      ASSERT_EQ(found.start, object.start);
      ASSERT_EQ(found.bytes, object.bytes);
      ASSERT_FALSE(Blocks::is_free(found));
    }
  };
  unsigned refused = 0;
  for (int step = 0; step < 60'000; ++step) {
    const uint64_t choice = random() % 100;
    if (choice < 52) {
      const size_t size = random_size(random, longest);
      const size_t alignment = random() % 4 != 0 ? kAlignment : size_t{1} << random() % 14;
      void* p = random() % 8 == 0 ? fixture.blocks.allocate_anywhere(size, alignment)
                                  : fixture.blocks.allocate(size, alignment);
      if (p == nullptr) {
        ++refused;
        continue;
      }
      const ObjectAt found = fixture.at(p);
      ASSERT_EQ(number(p) % alignment, 0u);
      ASSERT_EQ(found.start, number(p));
      ASSERT_GE(found.bytes, size);
      ASSERT_TRUE(fixture.holds(found.start, found.bytes));
      ASSERT_TRUE(shadow.add({found.start, found.bytes}));
    } else if (shadow.count() != 0 && choice < 60) {
      const Shadow::Object object = shadow.remove(random() % shadow.count());
      const ObjectAt found = fixture.at(address(object.start));
      size_t bytes = object.bytes;
      if (found.block->use == Use::kObject) {
        const size_t size = random_size(random, longest);
        const bool done = fixture.blocks.resize(found.block, size);
        bytes = fixture.at(address(object.start)).bytes;
        ASSERT_EQ(bytes, done ? round_up(size, kUnit) : object.bytes);
      }
      ASSERT_TRUE(shadow.add({object.start, bytes}));
    } else if (shadow.count() != 0) {
      const Shadow::Object object = shadow.remove(random() % shadow.count());
      check_one(object);
      fixture.free(address(object.start));
    } else if (choice == 99) {
      fixture.blocks.give_up_empty_rows();
    }
    ASSERT_EQ(fixture.blocks.live_bytes(), shadow.bytes());
    ASSERT_EQ(fixture.blocks.live_objects(), shadow.count());
    if (step % 256 == 0) fixture.blocks.check(fixture.extent());
  }
  if (units <= 4096) {
    EXPECT_GT(refused, 0u);
  }
  while (shadow.count() != 0) fixture.free(address(shadow.remove(0).start));
  fixture.blocks.give_up_empty_rows();
  ASSERT_NE(Blocks::only_free_block(fixture.extent()), nullptr) << "all of it has joined again";
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlocksAtRandom,
                         testing::Values(Case{1, 300}, Case{7, 2000}, Case{256, 30'000},
                                         Case{4096, 100'000}, Case{60'000, 2'000'000}),
                         [](const auto& test) { return std::to_string(test.param.units); });

TEST_F(BlocksTest, ASmallExtentIsUsedToItsLastUnit) {
  Fixture fixture(16);
  std::vector<void*> objects;
  // The first row takes eight units; then there is room for no other, but for single objects.
  for (size_t size = 16; size <= 1024; size += 16) {
    void* p = fixture.blocks.allocate(size, kAlignment);
    if (p == nullptr) p = fixture.blocks.allocate_anywhere(size, kAlignment);
    if (p != nullptr) objects.push_back(p);
  }
  void* p = nullptr;
  while ((p = fixture.blocks.allocate_anywhere(1, kAlignment)) != nullptr) objects.push_back(p);
  EXPECT_EQ(Blocks::only_free_block(fixture.extent()), nullptr);
  for (void* object : objects) fixture.free(object);
  fixture.blocks.give_up_empty_rows();
  p = fixture.blocks.allocate(16 * kUnit, kAlignment);
  EXPECT_EQ(number(p), fixture.extent()->base) << "all of it in one object";
  EXPECT_EQ(fixture.blocks.allocate_anywhere(1, kAlignment), nullptr);
  fixture.free(p);
}

TEST_F(BlocksTest, AlignedObjectsLeaveNothingBehind) {
  Fixture fixture(4096);
  for (size_t alignment = kAlignment; alignment <= 512 * kUnit; alignment *= 2) {
    void* first = fixture.blocks.allocate(5 * kUnit, kAlignment);
    void* p = fixture.blocks.allocate(2000, alignment);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(number(p) % alignment, 0u);
    fixture.free(first);
    fixture.free(p);
    EXPECT_NE(Blocks::only_free_block(fixture.extent()), nullptr) << alignment;
  }
  // No unit to spare, but in the right place.
  const size_t alignment = size_t{1} << lowest_bit(fixture.extent()->base);
  void* p = fixture.blocks.allocate_anywhere(4096 * kUnit, alignment);
  EXPECT_EQ(number(p), fixture.extent()->base);
  fixture.free(p);
  EXPECT_EQ(fixture.blocks.allocate_anywhere(1, size_t{1} << 62), nullptr);
  EXPECT_EQ(fixture.blocks.allocate_anywhere(PTRDIFF_MAX, kAlignment), nullptr);
}

TEST_F(BlocksTest, TheLastResortLooksAtEveryRun) {
  Fixture fixture(60'000);
  // Runs of 64 units, which share their list with those of up to 79, and one of 70 among the first.
  std::vector<void*> runs;
  std::vector<void*> between;
  for (int i = 0; i < 100; ++i) {
    runs.push_back(fixture.blocks.allocate((i == 0 ? 70 : 64) * kUnit, kAlignment));
    between.push_back(fixture.blocks.allocate(2 * kUnit * 8, kAlignment));
  }
  for (const size_t units : {1000, 100, 70, 10}) {
    while (fixture.blocks.allocate(units * kUnit, kAlignment) != nullptr) {
    }
  }
  for (void* p : runs) fixture.free(p);
  EXPECT_EQ(fixture.blocks.allocate(70 * kUnit, kAlignment), nullptr);
  EXPECT_EQ(fixture.blocks.allocate_anywhere(70 * kUnit, kAlignment), runs[0]);
}

TEST_F(BlocksTest, TheSmallestRunThatFits) {
  Fixture fixture(1000);
  void* a = fixture.blocks.allocate(40 * kUnit, kAlignment);
  void* b = fixture.blocks.allocate(10 * kUnit, kAlignment);
  void* c = fixture.blocks.allocate(30 * kUnit, kAlignment);
  void* d = fixture.blocks.allocate(10 * kUnit, kAlignment);
  fixture.free(a);
  fixture.free(c);
  EXPECT_EQ(fixture.blocks.allocate(29 * kUnit, kAlignment), c);
  fixture.free(b);
  fixture.free(d);
}

// Beyond the length of objects that a heap would put into an extent with others.
TEST_F(BlocksTest, AnObjectThatGrowsIsKnownByAllItsUnits) {
  Fixture f(kNamedExtent);
  void* before = f.blocks.allocate(70'000, kUnit);
  void* p = f.blocks.allocate(kNamedUnits << kUnitLog, kUnit);
  const auto is_known = [&](size_t units) {
    for (size_t unit = 0; unit < units; ++unit) {
      const ObjectAt object = f.at(address(number(p) + (unit << kUnitLog) + unit % kUnit));
      if (object.start != number(p) || object.bytes != units << kUnitLog) return false;
    }
    return true;
  };
  EXPECT_TRUE(is_known(kNamedUnits));
  for (const size_t units : {kNamedUnits + 1, 2 * kNamedUnits, 3 * kNamedUnits, kNamedUnits + 7}) {
    ASSERT_TRUE(f.blocks.resize(f.at(p).block, units << kUnitLog));
    EXPECT_TRUE(is_known(units)) << units;
  }
  f.free(p);
  EXPECT_EQ(f.at(address(number(p) + kUnit)).start, 0u);
  f.free(before);
}

TEST_F(BlocksTest, ResizingTakesWhatIsFreeBehind) {
  Fixture fixture(100);
  void* p = fixture.blocks.allocate(20 * kUnit, kAlignment);
  void* q = fixture.blocks.allocate(10 * kUnit, kAlignment);
  Block* block = fixture.at(p).block;
  EXPECT_FALSE(fixture.blocks.resize(block, 21 * kUnit));
  EXPECT_TRUE(fixture.blocks.resize(block, 5 * kUnit));
  EXPECT_EQ(fixture.at(p).bytes, 5 * kUnit);
  EXPECT_TRUE(fixture.blocks.resize(block, 20 * kUnit)) << "exactly what is free";
  EXPECT_EQ(fixture.at(p).bytes, 20 * kUnit);
  fixture.free(q);
  EXPECT_TRUE(fixture.blocks.resize(block, 100 * kUnit)) << "to the end of the extent";
  EXPECT_FALSE(fixture.blocks.resize(block, 101 * kUnit));
  fixture.free(p);
  EXPECT_NE(Blocks::only_free_block(fixture.extent()), nullptr);
}

void use_rows(size_t units, size_t row_bytes) {
  Fixture fixture(units);
  for (SizeClass c = 0; c < kRowClasses; ++c) {
    if (!has_rows(c)) continue;
    const size_t size = class_size(c);
    std::vector<void*> objects;
    for (unsigned i = 0; i < objects_in_row(c, row_bytes); ++i) {
      objects.push_back(fixture.blocks.allocate(size, kAlignment));
      EXPECT_EQ(number(objects[i]), number(objects[0]) + i * size) << "the lowest first";
    }
    EXPECT_EQ(fixture.at(objects[0]).block, fixture.at(objects.back()).block);
    fixture.free(objects[1]);
    EXPECT_TRUE(Blocks::is_free(fixture.at(objects[1])));
    EXPECT_EQ(fixture.at(address(number(objects[1]) + size - 1)).start, number(objects[1]));
    EXPECT_EQ(fixture.blocks.allocate(size, kAlignment), objects[1]);
    for (void* p : objects) fixture.free(p);
    // The row is kept for the next objects of its class.
    EXPECT_EQ(fixture.blocks.allocate(size, kAlignment), objects[0]);
    fixture.free(objects[0]);
  }
  EXPECT_TRUE(fixture.blocks.give_up_empty_rows());
  EXPECT_FALSE(fixture.blocks.give_up_empty_rows());
  EXPECT_NE(Blocks::only_free_block(fixture.extent()), nullptr);
}

TEST_F(BlocksTest, PlacesInAShortRow) { use_rows(kManyUnits - 1, kShortRow); }
TEST_F(BlocksTest, PlacesInALongRow) { use_rows(kManyUnits, kLongRow); }

}  // namespace
}  // namespace loft
