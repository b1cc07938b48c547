// What the programs with very many threads share: stacks so small that they count for little, and
// the same under every allocator, and objects of mixed sizes.
#ifndef LOFT_BENCH_CROWD_H_
#define LOFT_BENCH_CROWD_H_

#include <pthread.h>

#include "common.h"

namespace bench {

// Mixed, up to where most programs' objects end.
inline constexpr uint64_t kMixedSizes[] = {16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048};

inline constexpr size_t kSmallStack = 128 << 10;

// Starts `count` threads: begin(i, attributes) makes the one of that number, and returns what
// pthread_create did.
template <typename Begin>
void start_crowd(uint64_t count, const Begin& begin) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kSmallStack);
  for (uint64_t i = 0; i < count; i++) {
    if (begin(i, &attributes) != 0) {
      fail("thread %" PRIu64 " did not start: this system allows fewer", i);
    }
  }
  pthread_attr_destroy(&attributes);
}

}  // namespace bench

#endif  // LOFT_BENCH_CROWD_H_
