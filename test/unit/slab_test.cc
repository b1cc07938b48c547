// Slabs: the arithmetic of every class at every byte, what is handed out and taken back.
#include "slab/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "slab/geometry.h"
#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

using test::address;
using test::number;

constexpr uint16_t kOwner = 7;

TEST(Geometry, FitsItsFields) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const Geometry& shape = geometry(c);
    const size_t bytes = size_t{shape.granules} << kGranuleLog;
    EXPECT_EQ(shape.size, class_size(c));
    EXPECT_EQ(shape.objects, bytes / shape.size);
    EXPECT_GE(shape.objects, 16);
    EXPECT_LE(shape.objects, 4096);
    EXPECT_EQ(shape.words, (shape.objects + 63) / 64);
    EXPECT_LE(shape.words, kMaxWords);
    // The carrier: a link and at least one word, inside one object.
    EXPECT_GE(shape.carrier_words, 1);
    EXPECT_LE((shape.carrier_words + 1u) * 8, shape.size);
    // A place behind the last object still has a bit in the last word: a batch's bitmap and the
    // checks of what arrives need no other bound.
    EXPECT_TRUE(shape.objects % 64 != 0 || shape.objects * size_t{shape.size} == bytes);
    EXPECT_FALSE(
        beyond_last_object(shape, shape.words - 1u, uint64_t{1} << (shape.objects - 1) % 64));
    EXPECT_TRUE(shape.objects % 64 == 0 ||
                beyond_last_object(shape, shape.words - 1u, uint64_t{1} << shape.objects % 64));
    // The slack behind the last object.
    EXPECT_LE((bytes - shape.objects * size_t{shape.size}) * 16, bytes);
  }
}

// The index of the object that covers an offset, and whether an object starts there: for every byte
// of a slab of every class.
TEST(Geometry, EveryOffset) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const Geometry& shape = geometry(c);
    const uint64_t bytes = uint64_t{shape.granules} << kGranuleLog;
    uint64_t wrong = 0;
    uint32_t index = 0;
    uint32_t rest = 0;
    for (uint64_t offset = 0; offset < bytes; ++offset) {
      const Product product = product_of(offset, shape.inverse);
      wrong += index_in(product) != index;
      wrong += starts_in(product, shape.start_limit) != (rest == 0 && index < shape.objects);
      if (++rest == shape.size) {
        rest = 0;
        ++index;
      }
    }
    EXPECT_EQ(wrong, 0u) << shape.size;
  }
}

TEST(Geometry, NoObjectStartsOutsideTheSlab) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    const Geometry& shape = geometry(c);
    const uint64_t bytes = uint64_t{shape.granules} << kGranuleLog;
    uint64_t starts = 0;
    for (uint64_t i = 0; i < 3 * shape.objects; ++i) {
      starts += object_starting_at(shape, bytes + i * shape.size) != kNoObject;
      starts += object_starting_at(shape, (shape.objects + i) * shape.size) != kNoObject;
      starts += object_starting_at(shape, -(i + 1) * shape.size) != kNoObject;
    }
    EXPECT_EQ(starts, 0u) << shape.size;
  }
}

class SlabTest : public testing::TestWithParam<SizeClass> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(span::initialise());
    slab_ = test::new_slab(GetParam(), kOwner);
    ASSERT_NE(slab_, nullptr);
    slab_->set_list(Fullness::kSparser);
    free_.assign(shape().objects, true);
  }

  // Gives everything back first, as a slab must be empty by then.
  void TearDown() override {
    for (unsigned i = 0; i < free_.size(); ++i) {
      if (!free_[i]) put(i);
    }
    slab_->set_list(Fullness::kSpare);
    const uintptr_t base = slab_->base;
    const uint16_t granules = shape().granules;
    slab::destroy_all(&slab_, 1);
    for (uintptr_t at = base; at < base + granules * kGranule; at += kGranule) {
      EXPECT_FALSE(pagemap.of(address(at)).is_slab());
    }
  }

  const Geometry& shape() const { return slab_->shape(); }
  unsigned index_of(const void* p) const {
    return static_cast<unsigned>((number(p) - slab_->base) / shape().size);
  }

  // Takes `wanted` objects and holds them against the lowest free ones.
  void take(unsigned wanted) {
    std::vector<void*> slots(wanted + 2, nullptr);
    const unsigned taken = slab_->take(&slots[wanted], wanted);
    std::vector<unsigned> expected;
    for (unsigned i = 0; i < free_.size() && expected.size() < wanted; ++i) {
      if (free_[i]) expected.push_back(i);
    }
    ASSERT_EQ(taken, expected.size());
    for (unsigned i = 0; i < taken; ++i) {
      const void* p = slots[wanted - i];
      ASSERT_EQ(number(p), slab_->base + uint64_t{expected[i]} * shape().size);
      free_[expected[i]] = false;
    }
    // No slot beside them was written.
    ASSERT_EQ(slots[wanted - taken], nullptr);
    ASSERT_EQ(slots[wanted + 1], nullptr);
    check();
  }

  void put(unsigned index) {
    slab_->put_word(index / 64, uint64_t{1} << index % 64, 1);
    free_[index] = true;
  }

  void check() {
    ASSERT_EQ(slab_->free, std::count(free_.begin(), free_.end(), true));
    for (unsigned word = 0; word < shape().words; ++word) {
      uint64_t bits = 0;
      for (unsigned i = word * 64; i < std::min<size_t>(free_.size(), word * 64 + 64); ++i) {
        bits |= uint64_t{free_[i]} << i % 64;
      }
      ASSERT_EQ(slab_->bits[word], bits) << word;
      ASSERT_EQ(slab_->summary >> word & 1, bits != 0) << word;
    }
    slab_->set_list(fullness_of(slab_->free, slab_->shape().objects));
    slab_->check();
  }

  Slab* slab_ = nullptr;
  std::vector<bool> free_;
};

TEST_P(SlabTest, NewOneIsAllFreeAndNamedByEveryGranule) {
  EXPECT_TRUE(slab_->empty());
  check();
  EXPECT_EQ(slab_->base % kGranule, 0u);
  for (unsigned i = 0; i < shape().granules; ++i) {
    const Entry entry = pagemap.of(address(slab_->base + i * kGranule));
    EXPECT_EQ(entry.owner(), kOwner);
    EXPECT_EQ(entry.bin(), bin_offset(GetParam()));
    EXPECT_EQ(slab::at(entry), slab_);
  }
}

TEST_P(SlabTest, LowestFirstUntilFull) {
  for (const unsigned wanted : {1u, 3u, 63u, 64u, 65u, 130u, 5000u}) {
    if (slab_->free == 0) break;
    ASSERT_NO_FATAL_FAILURE(take(wanted)) << wanted;
  }
  EXPECT_EQ(slab_->free, 0u);
}

TEST_P(SlabTest, RandomTakesAndPuts) {
  std::mt19937 random(GetParam());
  for (int step = 0; step < 300; ++step) {
    if (random() % 2 == 0 && slab_->free != 0) {
      ASSERT_NO_FATAL_FAILURE(take(1 + static_cast<unsigned>(random() % (shape().objects / 4))));
    } else {
      // Whole words at a time: what is not free of them comes back.
      const auto word = static_cast<unsigned>(random() % shape().words);
      uint64_t freed = random() | uint64_t{random()} << 32;
      for (unsigned i = 0; i < 64; ++i) {
        const unsigned index = word * 64 + i;
        if (index >= shape().objects || free_[index]) freed &= ~(uint64_t{1} << i);
        if ((freed >> i & 1) != 0) free_[index] = true;
      }
      if (freed != 0) slab_->put_word(word, freed, count_bits(freed));
      ASSERT_NO_FATAL_FAILURE(check());
    }
  }
}

TEST_P(SlabTest, ObjectsLieInTheirSlabAndApart) {
  const unsigned objects = shape().objects;
  std::vector<void*> slots(objects);
  ASSERT_EQ(slab_->take(&slots[objects - 1], objects), objects);
  std::fill(free_.begin(), free_.end(), false);
  std::sort(slots.begin(), slots.end());
  for (unsigned i = 0; i < objects; ++i) {
    ASSERT_EQ(number(slots[i]), slab_->base + uint64_t{i} * shape().size);
    ASSERT_EQ(number(slots[i]) % 16, 0u);
  }
  ASSERT_LE(number(slots.back()) + shape().size,
            slab_->base + (uintptr_t{shape().granules} << kGranuleLog));
}

// The ends of the three sizes of slabs, whole and broken last words, one word and many.
INSTANTIATE_TEST_SUITE_P(Classes, SlabTest,
                         testing::Values(class_of(16), class_of(48), class_of(64), class_of(112),
                                         class_of(1024), class_of(1280), class_of(8192),
                                         class_of(10240), class_of(32768)),
                         [](const auto& of) { return std::to_string(class_size(of.param)); });

TEST(Slab, MemoryOfDestroyedOnesIsUsedAgain) {
  ASSERT_TRUE(span::initialise());
  const size_t used = metadata::used_bytes();
  uintptr_t highest = 0;
  for (int round = 0; round < 200; ++round) {
    Slab* slab = test::new_slab(static_cast<SizeClass>(round % 8), kOwner);
    ASSERT_NE(slab, nullptr);
    if (round < 8) highest = std::max(highest, slab->base);
    EXPECT_LE(slab->base, highest);
    slab::destroy_all(&slab, 1);
  }
  // A descriptor or two of spans stay.
  EXPECT_LE(metadata::used_bytes(), used + 1024);
}

TEST(SlabDeathTest, DoubleFreeNamesAddressSlabAndClass) {
  ASSERT_TRUE(span::initialise());
  Slab* slab = test::new_slab(class_of(48), kOwner);
  std::vector<void*> slots(100);
  ASSERT_EQ(slab->take(&slots[99], 100), 100u);
  slab->put_word(1, 0b1000, 1);
  const std::string line =
      std::string("double free of 0x[0-9a-f]+: slab 0x[0-9a-f]+, size class 48 bytes");
  EXPECT_DEATH(slab->put_word(1, 0b1000, 1), line);
  EXPECT_DEATH(slab->put_word(1, 0b1100, 2), line);
  // Never handed out.
  EXPECT_DEATH(slab->put_word(2, 1, 1), line);
  // The object itself is named, not the first of its word.
  Text exact;
  exact << "double free of " << address(slab->base + 67 * 48);
  EXPECT_DEATH(slab->put_word(1, 0b1100, 2), std::string(exact.data(), exact.size()));
}

#if defined(LOFT_DEBUG)
TEST(SlabDeathTest, BrokenInvariants) {
  ASSERT_TRUE(span::initialise());
  Slab* slab = test::new_slab(class_of(48), kOwner);
  slab->set_list(Fullness::kSparser);
  slab->check();
  EXPECT_DEATH((slab->free -= 1, slab->check()), "broken invariant");
  EXPECT_DEATH((slab->summary = 0, slab->check()), "broken invariant");
  EXPECT_DEATH((slab->set_list(Fullness::kFull), slab->check()), "broken invariant");
  void* slot = nullptr;
  EXPECT_DEATH((slab->free = 0, slab->take(&slot, 1)), "broken invariant");
  EXPECT_DEATH((slab->bits[slab->shape().words - 1] = ~uint64_t{0}, slab->check()),
               "broken invariant");
}
#endif

}  // namespace
}  // namespace loft
