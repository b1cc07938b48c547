// Every documented corner of the C functions: zero sizes, overflow, bad alignments, errno.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <set>

#include "surface/support.h"

namespace {

using surface::aligned;
using surface::kImpossible;
using surface::opaque;

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// An errno that no function under test sets, to see whether it stays.
constexpr int kUntouched = 4711;

// Everything that takes a size fails with ENOMEM for one that cannot be.
template <class Allocate>
void expect_no_memory(Allocate allocate) {
  for (const size_t size : kImpossible) {
    errno = 0;
    void* p = allocate(opaque(size));
    EXPECT_EQ(p, nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
    free(p);
  }
}

// Objects of size zero: real ones, each at its own address.
template <class Allocate>
void expect_zero_is_an_object(Allocate allocate) {
  std::set<void*> seen;
  for (int i = 0; i < 100; ++i) {
    void* p = allocate(opaque(size_t{0}));
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(aligned(p, 16));
    EXPECT_TRUE(seen.insert(p).second) << "two objects at " << p;
  }
  for (void* p : seen) free(p);
}

TEST(Malloc, ZeroBytesAreAnObject) { expect_zero_is_an_object(malloc); }

TEST(Malloc, ImpossibleSizes) { expect_no_memory(malloc); }

TEST(Malloc, MoreThanThereIs) {
  errno = 0;
  EXPECT_EQ(malloc(opaque(size_t{1} << 46)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* p = malloc(100);
  EXPECT_NE(p, nullptr) << "a failure must not spoil what follows";
  free(p);
}

TEST(Malloc, KeepsErrnoOnSuccess) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1000}, size_t{100'000}, size_t{10'000'000}}) {
    errno = kUntouched;
    void* p = malloc(opaque(size));
    EXPECT_EQ(errno, kUntouched) << size;
    free(p);
  }
}

TEST(Free, NullIsNothing) {
  errno = kUntouched;
  free(opaque(static_cast<void*>(nullptr)));
  EXPECT_EQ(errno, kUntouched);
}

TEST(Free, KeepsErrno) {
  // Large objects reach system calls, the run of small ones the slow paths.
  for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{70'000}, size_t{1} << 20,
                            size_t{64} << 20, size_t{512} << 20}) {
    const size_t count = size < 100'000 ? 4000 : 4;
    std::vector<void*> objects(count);
    for (void*& p : objects) {
      p = malloc(size);
      ASSERT_NE(p, nullptr) << size;
    }
    for (void* p : objects) {
      errno = kUntouched;
      free(p);
      ASSERT_EQ(errno, kUntouched) << size;
    }
  }
}

TEST(Calloc, ZeroBytesAreAnObject) {
  expect_zero_is_an_object([](size_t n) { return calloc(n, 8); });
  expect_zero_is_an_object([](size_t n) { return calloc(8, n); });
}

TEST(Calloc, OverflowIsNoMemory) {
  constexpr size_t kHalf = size_t{1} << 32;
  const size_t products[][2] = {
      {kHalf, kHalf}, {SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2}, {SIZE_MAX / 15, 16}};
  for (const auto& [count, size] : products) {
    errno = 0;
    EXPECT_EQ(calloc(opaque(count), opaque(size)), nullptr) << count << " * " << size;
    EXPECT_EQ(errno, ENOMEM);
  }
  expect_no_memory([](size_t n) { return calloc(n, 1); });
  expect_no_memory([](size_t n) { return calloc(1, n); });
}

TEST(Calloc, IsZeroWhereOthersHaveWritten) {
  for (const size_t size : {size_t{1}, size_t{16}, size_t{100}, size_t{1024}, size_t{5000},
                            size_t{33'000}, size_t{200'000}, size_t{3} << 20}) {
    for (int round = 0; round < 20; ++round) {
      auto* p = static_cast<unsigned char*>(calloc(1, size));
      ASSERT_NE(p, nullptr);
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(p[i], 0) << "byte " << i << " of " << size;
      memset(p, 0xa5, malloc_usable_size(p));
      opaque(p);
      free(p);
      p = static_cast<unsigned char*>(malloc(size));
      memset(p, 0x5a, malloc_usable_size(p));
      opaque(p);
      free(p);
    }
  }
}

TEST(Realloc, OfNullIsMalloc) {
  void* p = realloc(opaque(static_cast<void*>(nullptr)), 100);
  ASSERT_NE(p, nullptr);
  EXPECT_GE(malloc_usable_size(p), 100u);
  free(p);
  expect_zero_is_an_object(
      [](size_t n) { return realloc(opaque(static_cast<void*>(nullptr)), n); });
}

TEST(Realloc, ToZeroFrees) {
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{100'000}, size_t{4} << 20}) {
    void* p = malloc(size);
    errno = kUntouched;
    EXPECT_EQ(realloc(p, opaque(size_t{0})), nullptr);
    EXPECT_EQ(errno, kUntouched) << "success, not failure";
  }
}

TEST(Realloc, FailureKeepsTheObject) {
  for (const size_t size : {size_t{10}, size_t{3000}, size_t{300'000}}) {
    auto* p = static_cast<char*>(malloc(size));
    memset(p, 'x', size);
    expect_no_memory([p](size_t n) { return realloc(p, n); });
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(p[i], 'x');
    free(p);
  }
}

TEST(Realloc, KeepsWhatFits) {
  const size_t sizes[] = {1,    15,    16,     17,     100,       1000,      1025,
                          4096, 33000, 65536,  70'000, 262'144,   1'000'000, 5'000'000,
                          100,  40,    20'000, 1,      3'000'000, 2'000'000};
  for (const size_t from : sizes) {
    for (const size_t to : sizes) {
      auto* p = static_cast<unsigned char*>(malloc(from));
      ASSERT_NE(p, nullptr);
      for (size_t i = 0; i < from; ++i) p[i] = static_cast<unsigned char>(i * 7 + i / 251);
      auto* q = static_cast<unsigned char*>(realloc(p, to));
      ASSERT_NE(q, nullptr);
      ASSERT_GE(malloc_usable_size(q), to);
      const size_t kept = std::min(from, to);
      for (size_t i = 0; i < kept; ++i) {
        ASSERT_EQ(q[i], static_cast<unsigned char>(i * 7 + i / 251)) << from << " -> " << to;
      }
      q[to - 1] = 1;
      free(q);
    }
  }
}

TEST(Realloc, GrowsStepByStep) {
  size_t size = 1;
  auto* p = static_cast<unsigned char*>(malloc(size));
  p[0] = 0;
  while (size < (size_t{64} << 20)) {
    const size_t next = size + size / 2 + 1;
    p = static_cast<unsigned char*>(realloc(p, next));
    ASSERT_NE(p, nullptr);
    // One byte in each step's part, all of them checked every time.
    for (size_t at = 1, i = 1; at <= size; at = at + at / 2 + 1, ++i) {
      if (at < size) {
        ASSERT_EQ(p[at], static_cast<unsigned char>(i)) << at << " of " << next;
      }
    }
    size_t i = 1;
    for (size_t at = 1; at < next; at = at + at / 2 + 1, ++i) p[at] = static_cast<unsigned char>(i);
    size = next;
  }
  free(p);
}

TEST(Reallocarray, IsReallocOfTheProduct) {
  void* p = reallocarray(nullptr, 10, 10);
  ASSERT_NE(p, nullptr);
  EXPECT_GE(malloc_usable_size(p), 100u);
  memset(p, 'y', 100);
  p = reallocarray(p, 1000, 100);
  ASSERT_NE(p, nullptr);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(static_cast<char*>(p)[i], 'y');

  errno = 0;
  EXPECT_EQ(reallocarray(p, opaque(size_t{1} << 32), opaque(size_t{1} << 32)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(static_cast<char*>(p)[99], 'y') << "overflow must keep the object";
  EXPECT_EQ(reallocarray(p, opaque(size_t{0}), 100), nullptr) << "and this frees it";
}

TEST(AlignedAlloc, RejectsWhatIsNoPowerOfTwo) {
  for (const size_t alignment : {size_t{0}, size_t{3}, size_t{24}, size_t{4097}, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(aligned_alloc(opaque(alignment), 64), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
}

TEST(AlignedAlloc, SizeNeedNotBeAMultiple) {
  void* p = aligned_alloc(opaque(size_t{256}), opaque(size_t{10}));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(aligned(p, 256));
  free(p);
}

TEST(AlignedAlloc, Corners) {
  expect_zero_is_an_object([](size_t n) { return aligned_alloc(opaque(size_t{64}), n); });
  expect_no_memory([](size_t n) { return aligned_alloc(opaque(size_t{64}), n); });
  expect_no_memory([](size_t n) { return aligned_alloc(opaque(size_t{1} << 20), n); });
  // An alignment that no address space can offer.
  errno = 0;
  EXPECT_EQ(aligned_alloc(opaque(size_t{1} << 63), 64), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(PosixMemalign, RejectsBadAlignments) {
  for (const size_t alignment : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{3}, size_t{12},
                                 size_t{24}, size_t{100}, SIZE_MAX}) {
    int marker = 0;
    void* p = &marker;
    errno = kUntouched;
    EXPECT_EQ(posix_memalign(&p, opaque(alignment), 64), EINVAL) << alignment;
    EXPECT_EQ(p, &marker) << "untouched on failure";
    EXPECT_EQ(errno, kUntouched);
  }
}

TEST(PosixMemalign, NoMemoryIsAResult) {
  for (const size_t size : kImpossible) {
    int marker = 0;
    void* p = &marker;
    EXPECT_EQ(posix_memalign(&p, 64, opaque(size)), ENOMEM) << size;
    EXPECT_EQ(p, &marker);
  }
}

TEST(PosixMemalign, Aligns) {
  for (size_t alignment = sizeof(void*); alignment <= (size_t{4} << 20); alignment *= 2) {
    void* p = nullptr;
    errno = kUntouched;
    ASSERT_EQ(posix_memalign(&p, alignment, 100), 0) << alignment;
    EXPECT_EQ(errno, kUntouched);
    EXPECT_TRUE(aligned(p, alignment));
    memset(p, 1, 100);
    free(p);
  }
  expect_zero_is_an_object([](size_t n) {
    void* p = nullptr;
    EXPECT_EQ(posix_memalign(&p, 32, n), 0);
    return p;
  });
}

TEST(Memalign, RoundsAlignmentsUp) {
  const size_t alignments[][2] = {{0, 16}, {1, 16}, {3, 16}, {24, 32}, {100, 128}, {4097, 8192}};
  for (const auto& [asked, got] : alignments) {
    void* p = memalign(opaque(asked), 64);
    ASSERT_NE(p, nullptr) << asked;
    EXPECT_TRUE(aligned(p, got)) << asked;
    free(p);
  }
}

TEST(Memalign, Corners) {
  errno = 0;
  EXPECT_EQ(memalign(opaque(SIZE_MAX / 2 + 2), 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(memalign(opaque(SIZE_MAX / 2 + 1), 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  expect_no_memory([](size_t n) { return memalign(opaque(size_t{64}), n); });
  expect_zero_is_an_object([](size_t n) { return memalign(opaque(size_t{64}), n); });
}

TEST(Valloc, IsAtAPage) {
  for (const size_t size : {size_t{0}, size_t{1}, kPage, kPage + 1, size_t{100'000}}) {
    void* p = valloc(opaque(size));
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(aligned(p, kPage));
    EXPECT_GE(malloc_usable_size(p), size);
    free(p);
  }
  expect_no_memory(valloc);
}

TEST(Pvalloc, RoundsToWholePages) {
  for (const size_t size : {size_t{1}, kPage, kPage + 1, size_t{100'000}}) {
    void* p = pvalloc(opaque(size));
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(aligned(p, kPage));
    EXPECT_GE(malloc_usable_size(p), (size + kPage - 1) / kPage * kPage);
    free(p);
  }
  expect_no_memory(pvalloc);
}

TEST(MallocUsableSize, Corners) {
  EXPECT_EQ(malloc_usable_size(nullptr), 0u);
  for (size_t size = 0; size < 3000; size += 7) {
    void* p = malloc(size);
    EXPECT_GE(malloc_usable_size(p), size);
    // All of it is the program's to use.
    memset(p, 0xff, malloc_usable_size(p));
    opaque(p);
    free(p);
  }
}

}  // namespace
