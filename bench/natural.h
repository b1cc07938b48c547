// Natural numbers of any length, each of them an object: what cfrac computes with.
#ifndef LOFT_BENCH_NATURAL_H_
#define LOFT_BENCH_NATURAL_H_

#include <utility>

#include "common.h"

namespace bench {

__extension__ typedef unsigned __int128 Wide;

[[noreturn]] inline void lost() { fail("a number was overwritten"); }

// Digits of 32 bits, the least first, none of them zero at the end.
class Number {
 public:
  static inline uint64_t made = 0;
  static inline uint64_t freed = 0;

  Number() = default;
  explicit Number(uint32_t length)
      : digits_(static_cast<uint32_t*>(allocate(std::max(length, 1u) * 4))), length_(length) {
    std::memset(digits_, 0, length * 4);
    made++;
  }
  static Number of(uint64_t value) {
    Number x(2u);
    x[0] = static_cast<uint32_t>(value);
    x[1] = static_cast<uint32_t>(value >> 32);
    return std::move(x).trimmed();
  }
  Number(Number&& other) noexcept
      : digits_(std::exchange(other.digits_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Number& operator=(Number&& other) noexcept {
    std::swap(digits_, other.digits_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~Number() {
    if (digits_ == nullptr) return;
    release(digits_);
    freed++;
  }
  uint32_t& operator[](uint32_t i) { return digits_[i]; }
  uint32_t at(uint32_t i) const { return i < length_ ? digits_[i] : 0; }
  uint32_t length() const { return length_; }
  bool is(uint32_t value) const { return at(0) == value && length_ == (value != 0); }
  uint64_t low() const { return at(0) | uint64_t{at(1)} << 32; }
  uint32_t bits() const {
    return length_ == 0 ? 0 : length_ * 32 - static_cast<uint32_t>(__builtin_clz(at(length_ - 1)));
  }
  Number trimmed() && {
    while (length_ > 0 && digits_[length_ - 1] == 0) length_--;
    return std::move(*this);
  }

 private:
  uint32_t* digits_ = nullptr;
  uint32_t length_ = 0;
};

inline bool less(const Number& a, const Number& b) {
  for (uint32_t i = std::max(a.length(), b.length()); i-- > 0;) {
    if (a.at(i) != b.at(i)) return a.at(i) < b.at(i);
  }
  return false;
}

inline Number operator+(const Number& a, const Number& b) {
  Number sum(std::max(a.length(), b.length()) + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < sum.length(); i++, carry >>= 32) {
    carry += uint64_t{a.at(i)} + b.at(i);
    sum[i] = static_cast<uint32_t>(carry);
  }
  return std::move(sum).trimmed();
}

// Of what is not less.
inline Number operator-(const Number& a, const Number& b) {
  Number difference(a.length());
  int64_t borrow = 0;
  for (uint32_t i = 0; i < a.length(); i++, borrow >>= 32) {
    borrow += int64_t{a.at(i)} - b.at(i);
    difference[i] = static_cast<uint32_t>(borrow);
  }
  if (borrow != 0 || b.length() > a.length()) lost();
  return std::move(difference).trimmed();
}

inline Number operator*(const Number& a, const Number& b) {
  Number product(a.length() + b.length());
  for (uint32_t i = 0; i < a.length(); i++) {
    uint64_t carry = 0;
    for (uint32_t k = 0; k <= b.length() && i + k < product.length(); k++, carry >>= 32) {
      carry += uint64_t{a.at(i)} * b.at(k) + product[i + k];
      product[i + k] = static_cast<uint32_t>(carry);
    }
  }
  return std::move(product).trimmed();
}

// The quotient and the remainder of a division by at most 64 bits.
inline std::pair<Number, uint64_t> divide(const Number& a, uint64_t divisor) {
  if (divisor == 0) lost();
  Number quotient(a.length());
  auto run = [&](auto rest) {
    for (uint32_t i = a.length(); i-- > 0; rest %= divisor) {
      rest = rest << 32 | a.at(i);
      quotient[i] = static_cast<uint32_t>(rest / divisor);
    }
    return static_cast<uint64_t>(rest);
  };
  // The processor divides 64 bits, a function 128.
  uint64_t rest = divisor >> 32 == 0 ? run(uint64_t{0}) : run(Wide{0});
  return {std::move(quotient).trimmed(), rest};
}

inline Number operator<<(const Number& a, uint32_t bits) {
  Number shifted(a.length() + bits / 32 + 1);
  for (uint32_t i = 0; i < shifted.length(); i++) {
    uint64_t two = i < bits / 32 ? 0 : uint64_t{a.at(i - bits / 32)} << 32;
    if (i > bits / 32) two |= a.at(i - bits / 32 - 1);
    shifted[i] = static_cast<uint32_t>(two >> (32 - bits % 32));
  }
  return std::move(shifted).trimmed();
}

// Few bits apart, as nearly all are here.
inline Number operator%(Number a, const Number& n) {
  for (uint32_t bits = a.bits() + 1; bits-- > n.bits();) {
    Number multiple = n << (bits - n.bits());
    if (!less(a, multiple)) a = a - multiple;
  }
  return a;
}

inline Number copy(const Number& a) { return a + Number(0u); }

inline Number common_factor(Number a, Number b) {
  while (!b.is(0)) a = std::exchange(b, std::move(a) % b);
  return a;
}

inline Number root(const Number& n) {
  Number r(0u);
  for (uint32_t bit = (n.bits() + 1) / 2 + 1; bit-- > 0;) {
    Number more = r + (Number::of(1) << bit);
    if (!less(n, more * more)) r = std::move(more);
  }
  return r;
}

inline Number parsed(const std::string& text) {
  Number n(0u);
  for (char c : text) {
    if (c < '0' || c > '9') fail("--number: not a number: %s", text.c_str());
    n = n * Number::of(10) + Number::of(static_cast<uint64_t>(c - '0'));
  }
  return n;
}

inline std::string decimal(const Number& n) {
  auto [tens, last] = divide(n, 10);
  return (tens.is(0) ? "" : decimal(tens)) + static_cast<char>('0' + last);
}

}  // namespace bench

#endif  // LOFT_BENCH_NATURAL_H_
