// The scan of hardened=full, called directly, over slabs of a heap of its own.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "hardened/cell.h"
#include "hardened/scan.h"
#include "hardened/secrets.h"
#include "heap/registry.h"
#include "os/lock.h"
#include "space/span.h"

namespace loft::hardened {
namespace {

constexpr size_t kAll = SIZE_MAX;  // bytes: all slabs

class Scan : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(span::initialise());
    make_secrets();
    free_reads_as_zero = true;
    ASSERT_NE(registry::adopt(heap_), nullptr);
  }
  void TearDown() override {
    for (void* const p : taken_) give_back(p);
  }

  // An object of `asked` bytes in a place of 64 or 4096.
  static constexpr size_t place_for(size_t asked) { return asked <= 56 ? 64 : 4096; }
  char* make(size_t asked) {
    void* p = nullptr;
    const SizeClass c = class_of(place_for(asked));
    const os::Guard guard(heap_->lock());
    if (heap_->refill(c, &p, 1) == 0) heap_->refill_from_new(c, &p, 1);
    taken_.push_back(p);
    return static_cast<char*>(hand_out(p, class_size(c), asked, Maker::kMalloc, false));
  }
  // To its slab.
  void drop(void* p) {
    std::erase(taken_, p);
    give_back(p);
  }

  static bool scan_often() {
    bool done = true;
    restart_scan();
    for (unsigned look = 0; look < 2 * kScanLooks; ++look) done = scan(kAll);
    return done;
  }

  static Heap* heap_;
  std::vector<void*> taken_;

 private:
  static void give_back(void* p) {
    const SizeClass c = class_of_bin(pagemap.of(p).bin());
    const size_t bytes = class_size(c);
    Marks marks;
    if (is_object(p, bytes, &marks)) take_back("free", p, bytes, marks, true);
    const os::Guard guard(heap_->lock());
    heap_->put_back(c, &p, &p + 1);
  }
};
Heap* Scan::heap_ = nullptr;

TEST_F(Scan, WhatIsWholeIsLeftAlone) {
  std::vector<char*> objects;
  for (const size_t asked : {1, 33, 48, 55, 56, 2000, 4080, 4088}) {
    objects.push_back(make(asked));
    std::memset(objects.back(), 0xff, asked);
  }
  EXPECT_TRUE(scan_often());
  for (char* const p : objects) drop(p);
  EXPECT_TRUE(scan_often());
}

TEST_F(Scan, ARoundEndsWithTheLastSlab) {
  std::vector<char*> objects;
  for (int i = 0; i < 64; ++i) objects.push_back(make(4000));
  restart_scan();
  EXPECT_FALSE(scan(1));
  unsigned ticks = 1;
  while (!scan(1)) ++ticks;
  EXPECT_GT(ticks, 1u);
  restart_scan();
  EXPECT_TRUE(scan(kAll));
}

using ScanDeathTest = Scan;

TEST_F(ScanDeathTest, AByteBeyondAnObject) {
  for (const size_t asked : {40, 55, 56, 2000, 4088}) {
    EXPECT_DEATH(
        {
          make(asked)[asked] ^= 1;
          scan_often();
        },
        "loft: scan: a write beyond the object has damaged what lies behind 0x");
  }
}

TEST_F(ScanDeathTest, AWriteToAFreeObject) {
  for (const size_t at : {0, 31, 55}) {
    EXPECT_DEATH(
        {
          make(48);  // so that the slab stays
          char* const p = make(48);
          drop(p);
          p[at] = 1;
          scan_often();
        },
        "loft: write after free: the contents changed of 0x");
  }
}

// One look is none: the object may be on its way from the program or to it.
TEST_F(Scan, WhatIsMendedBetweenTwoLooksIsNotToldOf) {
  char* const p = make(50);
  restart_scan();
  for (unsigned round = 0; round < 3; ++round) {
    p[50] ^= 1;
    for (unsigned look = 1; look < kScanLooks; ++look) EXPECT_FALSE(scan(kAll));
    p[50] ^= 1;
    EXPECT_TRUE(scan(kAll));
  }
}

TEST_F(Scan, WithAHeapsLockHeldByAnotherItWaits) {
  make(48);
  char* const p = make(48);
  drop(p);
  p[0] = 1;
  {
    const os::Guard guard(heap_->lock());
    std::thread([] { scan_often(); }).join();
  }
  p[0] = 0;
  EXPECT_TRUE(scan_often());
}

TEST_F(Scan, ObjectsComeAndGoBesideIt) {
  std::thread worker([this] {
    for (int i = 0; i < 20'000; ++i) {
      char* const p = make(i % 57);
      Marks marks;
      ASSERT_TRUE(is_object(p, 64, &marks));
      resize("realloc", p, 64, 56 - i % 57, marks);
      std::memset(p, 0xff, 56 - i % 57);
      drop(p);
    }
  });
  for (int i = 0; i < 1000; ++i) scan(kAll);
  worker.join();
  EXPECT_TRUE(scan_often());
}

}  // namespace
}  // namespace loft::hardened
