#include "profile/progress.h"

#include "base/bits.h"
#include "base/keep.h"
#include "os/os.h"
#include "profile/poisson.h"

namespace loft::profile {

constinit Atomic<bool> is_on{false};
constinit LOFT_TLS __thread Progress progress{};

namespace {

constinit Atomic<uint64_t> mean{1};  // relaxed: a number by itself

uint64_t mean_for(uint64_t bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  return clamp<uint64_t>(bytes, 1, kMost);
}

// xorshift64*: the state is never 0, and each bit of the product is good enough for a gap.
uint64_t next_random() {
  uint64_t x = mine().random;
  if (LOFT_UNLIKELY(x == 0)) {
    os::random_bytes(&x, sizeof(x));
    if (x == 0) x = 1;
  }
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  mine().random = x;
  return x * 0x2545F4914F6CDD1Du;
}

}  // namespace

uint64_t mean_bytes() { return mean.load(memory_order_relaxed); }

void set_mean(uint64_t bytes) { mean.store(mean_for(bytes), memory_order_relaxed); }

bool changes_mean(uint64_t bytes) { return mean_bytes() != mean_for(bytes); }

void draw() {
  const KeepFloat keep;
  mine().mean = mean_bytes();
  mine().left = gap_of(next_random(), mine().mean);
}

}  // namespace loft::profile
