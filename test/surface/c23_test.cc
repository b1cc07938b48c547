// free_sized and free_aligned_sized, which Debian 12's libc does not have yet.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "surface/support.h"

extern "C" {
void free_sized(void* object, size_t size) noexcept;
void free_aligned_sized(void* object, size_t alignment, size_t size) noexcept;
}

namespace {

TEST(C23, FreeSized) {
  errno = 4711;
  free_sized(nullptr, 0);
  free_sized(nullptr, 100);
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{100}, size_t{1025}, size_t{40'000}, size_t{5'000'000}}) {
    for (int round = 0; round < 1000; ++round) {
      void* p = malloc(size);
      ASSERT_NE(p, nullptr);
      free_sized(surface::opaque(p), size);
      p = calloc(1, size);
      free_sized(surface::opaque(p), size);
      p = realloc(malloc(1), size + 1);
      free_sized(surface::opaque(p), size + 1);
    }
  }
  EXPECT_EQ(errno, 4711);
}

TEST(C23, FreeAlignedSized) {
  free_aligned_sized(nullptr, 64, 100);
  for (size_t alignment = 16; alignment <= (1u << 20); alignment *= 4) {
    for (const size_t size : {size_t{1}, size_t{100}, size_t{40'000}}) {
      for (int round = 0; round < 100; ++round) {
        void* p = aligned_alloc(alignment, size);
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(surface::aligned(p, alignment));
        free_aligned_sized(p, alignment, size);
      }
    }
  }
}

// The memory does come back: a loop over more than there is.
TEST(C23, MemoryIsReused) {
  for (int i = 0; i < 10'000; ++i) {
    constexpr size_t kSize = size_t{64} << 20;
    void* p = malloc(kSize);
    ASSERT_NE(p, nullptr) << i;
    free_sized(surface::opaque(p), kSize);
  }
}

}  // namespace
