// Bit and rounding helpers. Every alignment is a power of two.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace loft {

constexpr bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }
constexpr uintptr_t round_up(uintptr_t n, size_t alignment) {
  return (n + alignment - 1) & ~uintptr_t{alignment - 1};
}
constexpr uintptr_t round_down(uintptr_t n, size_t alignment) {
  return n & ~uintptr_t{alignment - 1};
}
constexpr unsigned lowest_bit(uint64_t n) { return static_cast<unsigned>(__builtin_ctzll(n)); }
constexpr unsigned highest_bit(uint64_t n) {
  return 63u - static_cast<unsigned>(__builtin_clzll(n));
}

// The number of ones below the lowest zero.
constexpr unsigned trailing_ones(uint64_t n) { return ~n == 0 ? 64 : lowest_bit(~n); }

// Population count by parallel sums. The baseline instruction set has no such instruction, and the
// library routine that the compiler would call walks a table.
constexpr unsigned count_bits(uint64_t n) {
  n -= (n >> 1) & 0x5555555555555555u;
  n = (n & 0x3333333333333333u) + ((n >> 2) & 0x3333333333333333u);
  n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<unsigned>((n * 0x0101010101010101u) >> 56);
}

// Sets the bit whose number is `bit` modulo 64. Whether it was set before. Compilers spend five
// instructions on what is one, since the flag that it leaves is in no language.
inline bool test_and_set(uint64_t& word, uint64_t bit) {
#if defined(__x86_64__)
  bool was = false;
  __asm__("btsq %[bit], %[word]" : [word] "+r"(word), "=@ccc"(was) : [bit] "r"(bit));
  return was;
#else
  const uint64_t before = word;
  word |= uint64_t{1} << bit % 64;
  return word == before;
#endif
}

template <class T>
constexpr T least(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr T most(T a, T b) {
  return a < b ? b : a;
}
template <class T>
constexpr T clamp(T n, T low, T high) {
  return most(low, least(n, high));
}

// The first of sixteen numbers that equals `wanted`; 16 if none does.
inline unsigned find_in_sixteen(const uint16_t* numbers, unsigned wanted) {
#if defined(__SSE2__)
  const __m128i all = _mm_set1_epi16(static_cast<int16_t>(wanted));
  const auto* const at = reinterpret_cast<const __m128i_u*>(numbers);
  const __m128i equal = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_loadu_si128(at), all),
                                        _mm_cmpeq_epi16(_mm_loadu_si128(at + 1), all));
  return lowest_bit(static_cast<unsigned>(_mm_movemask_epi8(equal)) | 1u << 16);
#else
  unsigned i = 0;
  while (i < 16 && numbers[i] != wanted) ++i;
  return i;
#endif
}

}  // namespace loft
