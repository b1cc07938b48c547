// Numbers of a power law, for sizes and lifetimes of which most are small and a few are large.
#ifndef LOFT_BENCH_POWER_LAW_H_
#define LOFT_BENCH_POWER_LAW_H_

#include <array>
#include <cmath>

#include "common.h"

namespace bench {

// Draws x from low..high with a density of x to the power of -exponent, which is not 1: one of a
// thousand parts that are equally likely, and a place within it. A power for each draw would hide
// the allocator.
class PowerLaw {
 public:
  PowerLaw(uint32_t low, uint32_t high, double exponent) {
    double power = 1 - exponent;
    double first = std::pow(low, power);
    double last = std::pow(high, power);
    for (uint32_t i = 0; i <= kParts; i++) {
      double quantile = std::pow(first + (last - first) * i / kParts, 1 / power);
      edges_[i] = std::clamp(static_cast<uint32_t>(std::lround(quantile)), low, high);
    }
  }
  uint32_t draw(Random& random) const {
    uint32_t part = random.below(kParts);
    return random.between(edges_[part], edges_[part + 1]);
  }
  double mean() const {
    double sum = 0;
    for (uint32_t i = 0; i < kParts; i++) sum += 0.5 * edges_[i] + 0.5 * edges_[i + 1];
    return sum / kParts;
  }

 private:
  static constexpr uint32_t kParts = 1024;
  std::array<uint32_t, kParts + 1> edges_;
};

}  // namespace bench

#endif  // LOFT_BENCH_POWER_LAW_H_
