// The draws and the weights of a sample. A sample falls on each byte with the same small chance, so
// that the gaps between samples are exponential. An object is sampled if a sample falls on one of
// its bytes. Own functions, because libm is none of the libraries that loft needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::profile {

// Natural logarithm of x > 0. The error is below 1e-9.
constexpr double logarithm(double x) {
  int exponent = 0;
  for (; x < 0.70710678118654752; x *= 2) --exponent;
  for (; x > 1.41421356237309505; x /= 2) ++exponent;
  const double t = (x - 1) / (x + 1);
  const double square = t * t;
  double sum = 0;
  for (int n = 11; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  return exponent * 0.69314718055994531 + 2 * t * sum;
}

// 1 - exp(-x) for x >= 0: the chance that an object of x times the mean gap is sampled. Relative
// error below 1e-9.
constexpr double chance(double x) {
  if (x > 40) return 1;
  int halvings = 0;
  for (; x > 0.25; x /= 2) ++halvings;
  double sum = 1;
  for (int n = 8; n > 1; --n) sum = 1 - x / n * sum;
  double result = x * sum;
  for (; halvings != 0; --halvings) result *= 2 - result;
  return result;
}

// The nearest whole number. x >= 0, and far below 2^64.
constexpr uint64_t nearest(double x) {
  const auto whole = static_cast<uint64_t>(x);
  return x - static_cast<double>(whole) < 0.5 ? whole : whole + 1;
}

// How many objects of `bytes` bytes one sampled object stands for, in units of 1 / kWeightUnit.
inline constexpr double kWeightUnit = 65536;
constexpr uint64_t weight_of(uint64_t bytes, uint64_t mean) {
  const double x = static_cast<double>(bytes) / static_cast<double>(mean);
  return x == 0 ? 0 : nearest(kWeightUnit / chance(x));
}

// The gap that follows from 64 random bits, in bytes.
constexpr uint64_t gap_of(uint64_t random, uint64_t mean) {
  // Uniform in (0, 1]: 53 bits are what a double holds.
  const double uniform = (static_cast<double>(random >> 11) + 1) * 0x1p-53;
  return static_cast<uint64_t>(-logarithm(uniform) * static_cast<double>(mean));
}

}  // namespace loft::profile
