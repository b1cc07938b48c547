// Pages of partly used slabs: which are gone, and that none goes on which an object lives.
#include "slab/holes.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "space/span.h"
#include "unit/support.h"

namespace loft {
namespace {

TEST(PageSet, AgainstAShadow) {
  std::mt19937 random(3);
  PageSet set{};
  std::vector<bool> shadow(kMostPages, false);
  for (int round = 0; round < 20'000; ++round) {
    unsigned first = random() % kMostPages;
    unsigned last = random() % kMostPages;
    if (first > last) std::swap(first, last);
    const bool meets = std::find(shadow.begin() + first, shadow.begin() + last + 1, true) !=
                       shadow.begin() + last + 1;
    ASSERT_EQ(set.meets({first, last}), meets);
    if (random() % 2 == 0) {
      set.add({first, last});
      std::fill(shadow.begin() + first, shadow.begin() + last + 1, true);
    } else {
      set.remove({first, last});
      std::fill(shadow.begin() + first, shadow.begin() + last + 1, false);
    }
    ASSERT_EQ(set.count(), std::count(shadow.begin(), shadow.end(), true));
    ASSERT_EQ(set.empty(), set.count() == 0);
    const unsigned page = random() % kMostPages;
    ASSERT_EQ(set.has(page), shadow[page]);
  }
}

// Against a plain loop: at each page, with rows over the seam of the words and up to the end.
TEST(PageSet, FromThePageThatWasLost) {
  std::mt19937 random(5);
  const auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
  for (unsigned first = 0; first < kMostPages; ++first) {
    for (unsigned last = first; last < kMostPages; ++last) {
      PageSet before{};
      before.add({first, last});
      if (first > 1) before.add({0, first - 2});
      if (last + 2 < kMostPages) before.add({last + 2, kMostPages - 1});
      PageSet now = before;
      if (first > 1) now.remove({0, below(first - 1)});
      const unsigned begin = first + below(last - first + 1);
      now.remove({begin, begin + below(last - begin + 1)});
      ASSERT_TRUE(before.differs(now) && now.differs(before));
      ASSERT_FALSE(before.differs(before));
      unsigned from = 0;
      while (!before.has(from) || now.has(from)) ++from;
      for (const unsigned count : {0u, 1u, 2u, 16u, 63u, 64u, 65u, 128u}) {
        unsigned end = from + 1;
        while (end < kMostPages && before.has(end) && end - from < least(count, 64u)) ++end;
        const Pages pages = before.lost_and_next(now, count);
        ASSERT_EQ(pages.first, from) << first << ' ' << last << ' ' << count;
        ASSERT_EQ(pages.last, end - 1) << first << ' ' << last << ' ' << count;
      }
    }
  }
}

class HolesTest : public testing::TestWithParam<SizeClass> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(span::initialise());
    slab_ = test::new_slab(GetParam(), 1);
    ASSERT_NE(slab_, nullptr);
    objects_ = take(shape().objects);
    for (char* p : objects_) memset(p, 0x5a, shape().size);
  }
  void TearDown() override {
    for (char* p : objects_) put(p);
    slab_->set_list(Fullness::kSpare);
    slab::destroy_all(&slab_, 1);
  }

  const Geometry& shape() const { return slab_->shape(); }

  std::vector<char*> take(unsigned wanted) {
    std::vector<void*> slots(wanted);
    const unsigned taken = slab_->take(&slots[wanted - 1], wanted);
    std::vector<char*> result;
    for (unsigned i = 0; i < taken; ++i) {
      result.push_back(static_cast<char*>(slots[wanted - 1 - i]));
    }
    return result;
  }
  void put(const char* p) {
    const uint32_t index = slab_->object_starting_at(p);
    slab_->put_word(index / 64, uint64_t{1} << index % 64, 1);
  }
  void purge_holes() {
    Holes holes(classes_);
    holes.purge(slab_);
    holes.finish();
  }
  // As the kernel sees it.
  bool resident(unsigned page) const {
    unsigned char state = 0;
    EXPECT_EQ(mincore(reinterpret_cast<void*>(slab_->base + page * os::page_size()), 1, &state), 0);
    return (state & 1) != 0;
  }
  bool lives_on(const char* p, unsigned page) const {
    const auto offset = static_cast<size_t>(p - reinterpret_cast<char*>(slab_->base));
    return offset / os::page_size() <= page &&
           page <= (offset + shape().size - 1) / os::page_size();
  }

  Slab* slab_ = nullptr;
  std::vector<char*> objects_;
  ClassCounters classes_[kSizeClasses];
};

TEST_P(HolesTest, PagesWithoutAnObjectGoAndNoOthers) {
  EXPECT_TRUE(slab_->gone.empty() || !slab_->gone.has(0)) << "all objects were handed out";
  std::mt19937 random(GetParam());
  for (const unsigned keep_of : {2u, 10u, 100u}) {
    std::shuffle(objects_.begin(), objects_.end(), random);
    const size_t kept = (objects_.size() + keep_of - 1) / keep_of;
    for (size_t i = kept; i < objects_.size(); ++i) put(objects_[i]);
    objects_.resize(kept);
    purge_holes();
    for (unsigned page = 0; page < slab_->pages(); ++page) {
      const bool used = std::any_of(objects_.begin(), objects_.end(),
                                    [&](const char* p) { return lives_on(p, page); });
      ASSERT_EQ(slab_->gone.has(page), !used) << page;
      ASSERT_EQ(resident(page), used) << page;
    }
    for (const char* p : objects_) {
      ASSERT_EQ(std::count(p, p + shape().size, 0x5a), shape().size);
    }
  }
}

TEST_P(HolesTest, ResidentPagesAreUsedFirst) {
  // The upper half of the pages goes, and an object on the lowest page comes back last of all.
  const size_t half = objects_.size() / 2;
  std::sort(objects_.begin(), objects_.end());
  for (size_t i = half; i < objects_.size(); ++i) put(objects_[i]);
  objects_.resize(half);
  purge_holes();
  put(objects_.front());
  char* const lowest = objects_.front();
  objects_.erase(objects_.begin());
  if (slab_->gone.empty()) GTEST_SKIP() << "half of this slab is no page";
  const std::vector<char*> first = take(1);
  EXPECT_EQ(first.front(), lowest);
  objects_.push_back(first.front());
  const size_t missing = shape().objects - objects_.size();
  for (char* p : take(static_cast<unsigned>(missing))) {
    memset(p, 0x5a, shape().size);
    objects_.push_back(p);
  }
  EXPECT_EQ(objects_.size(), shape().objects);
  for (unsigned page = 0; page < slab_->pages(); ++page) {
    const bool used = std::any_of(objects_.begin(), objects_.end(),
                                  [&](const char* p) { return lives_on(p, page); });
    ASSERT_TRUE(!used || !slab_->gone.has(page)) << page;
  }
}

TEST_P(HolesTest, ObjectsOnPagesThatAreGoneReadAsZero) {
  std::sort(objects_.begin(), objects_.end());
  // Nothing is gone, whatever is free.
  const size_t half = objects_.size() / 2;
  for (size_t i = half; i < objects_.size(); ++i) put(objects_[i]);
  objects_.resize(half);
  EXPECT_EQ(slab_->take_zero(), nullptr);
  purge_holes();
  std::vector<unsigned> gone;
  for (unsigned page = 0; page < slab_->pages(); ++page) {
    if (slab_->gone.has(page)) gone.push_back(page);
  }
  unsigned found = 0;
  while (auto* p = static_cast<char*>(slab_->take_zero())) {
    EXPECT_EQ(std::count(p, p + shape().size, 0), shape().size);
    memset(p, 0x5a, shape().size);
    objects_.push_back(p);
    ++found;
    // The next one is not on its pages any more.
    for (const unsigned page : gone) {
      if (lives_on(p, page)) {
        EXPECT_FALSE(slab_->gone.has(page));
      }
    }
  }
  if (shape().size <= os::page_size()) {
    EXPECT_EQ(found != 0, !gone.empty());
  }
  if (shape().size % os::page_size() == 0) {
    EXPECT_EQ(found, gone.size() * os::page_size() / shape().size);
  }
  slab_->set_list(fullness_of(slab_->free, shape().objects));
  slab_->check();
}

TEST_P(HolesTest, LockedPagesStayAndAreNotCalledGone) {
  const size_t bytes = size_t{shape().granules} << kGranuleLog;
  // The sanitizers' own mlock does nothing.
  if (syscall(SYS_mlock, slab_->base, bytes) != 0) GTEST_SKIP() << "may not lock";
  while (objects_.size() > 1) {
    put(objects_.back());
    objects_.pop_back();
  }
  purge_holes();
  for (unsigned page = 0; page < slab_->pages(); ++page) EXPECT_TRUE(resident(page));
  EXPECT_TRUE(slab_->gone.empty());
  syscall(SYS_munlock, slab_->base, bytes);
}

INSTANTIATE_TEST_SUITE_P(SizeClasses, HolesTest,
                         testing::Values(0u, 2u, 3u, 7u, class_of(144), class_of(160),
                                         class_of(1280), class_of(3072), class_of(8192),
                                         kSizeClasses - 1),
                         [](const auto& of) { return std::to_string(class_size(of.param)); });

}  // namespace
}  // namespace loft
