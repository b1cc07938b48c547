// Alignment and usable size, for all small sizes and all alignments: 16 bytes whatever the size,
// and what was asked for where it was asked for; neighbours never overlap.
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "surface/support.h"

namespace {

using surface::aligned;

// The system's own objects must be at 16 bytes in any size: SSE moves and long double rely on it.
TEST(Alignment, SixteenBytesForEverySize) {
  std::vector<void*> objects;
  for (size_t size = 0; size <= 5000; ++size) {
    void* p = malloc(size);
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(aligned(p, 16)) << size;
    ASSERT_GE(malloc_usable_size(p), size);
    objects.push_back(p);
  }
  for (void* p : objects) free(p);
}

TEST(Alignment, SixteenBytesForLargeSizes) {
  for (size_t size = 5000; size < (size_t{64} << 20); size += size / 7) {
    void* p = malloc(size);
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(aligned(p, 16)) << size;
    ASSERT_GE(malloc_usable_size(p), size);
    static_cast<char*>(p)[0] = 1;
    static_cast<char*>(p)[size - 1] = 1;
    free(p);
  }
}

TEST(Alignment, EveryAlignmentWithEverySize) {
  for (size_t alignment = 1; alignment <= (size_t{1} << 22); alignment *= 2) {
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{8}, size_t{24}, size_t{100}, size_t{511}, size_t{1024},
          size_t{1025}, size_t{5000}, size_t{40'000}, size_t{300'000}}) {
      void* p = memalign(alignment, size);
      ASSERT_NE(p, nullptr) << alignment << ", " << size;
      ASSERT_TRUE(aligned(p, alignment)) << alignment << ", " << size;
      ASSERT_GE(malloc_usable_size(p), size) << alignment << ", " << size;
      memset(p, 0x11, size);
      free(p);
    }
  }
}

// Many at once, each filled to its last usable byte: an overlap shows as a neighbour's byte.
TEST(Alignment, NeighboursDoNotOverlap) {
  for (const size_t alignment :
       {size_t{16}, size_t{64}, size_t{128}, size_t{4096}, size_t{65536}}) {
    struct Object {
      unsigned char* at;
      size_t size;
    };
    std::vector<Object> objects;
    for (size_t i = 0; i < 256; ++i) {
      auto* p = static_cast<unsigned char*>(memalign(alignment, i * 13 % 700));
      ASSERT_NE(p, nullptr);
      const size_t size = malloc_usable_size(p);
      memset(p, static_cast<int>(i), size);
      objects.push_back({p, size});
    }
    for (size_t i = 0; i < objects.size(); ++i) {
      for (size_t at = 0; at < objects[i].size; ++at) {
        ASSERT_EQ(objects[i].at[at], i) << "alignment " << alignment << ", byte " << at;
      }
      free(objects[i].at);
    }
  }
}

// A shrinking or growing realloc may lose an alignment above 16, never the 16.
TEST(Alignment, ReallocKeepsSixteen) {
  void* p = memalign(4096, 100);
  for (const size_t size : {size_t{50}, size_t{5000}, size_t{1}, size_t{1'000'000}, size_t{3}}) {
    p = realloc(p, size);
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(aligned(p, 16)) << size;
  }
  free(p);
}

}  // namespace
