// A number of 30 digits is factored by its root's continued fraction. Every number on the way, the
// quotient of each trial division too, is an object of a few bytes that soon is freed.
//
// Source: cfrac (D. Barrett), which mimalloc-bench runs for its many small and short-lived objects;
// the method is Morrison and Brillhart's ("A Method of Factoring and the Factorization of F7",
// Mathematics of Computation 29, 1975). With P and Q of the expansion, A its numerators and n the
// number, A * A = +-Q modulo n after each step. Products of such Q whose primes are small and occur
// in pairs are squares, and n has a common factor with half of the differences of the roots. The
// factor has to divide n. An operation is one number.
#include <array>
#include <bitset>
#include <utility>

#include "common.h"
#include "natural.h"

namespace {

using bench::Number;

uint64_t power(uint64_t x, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (; exponent != 0; exponent /= 2, x = x * x % modulus) {
    if (exponent % 2 != 0) result = result * x % modulus;
  }
  return result;
}

constexpr size_t kPrimes = 128;
constexpr size_t kRelations = kPrimes + 64;

struct Relation {
  Number numerator;
  std::array<uint8_t, kPrimes + 1> exponents;  // the last one is that of -1
};

// Relations of which the product is reduced as far as others allow.
struct Row {
  std::bitset<kPrimes + 1> odd;
  std::bitset<kRelations> product;
};

class Factoring {
 public:
  explicit Factoring(const Number& n) : n_(n) {
    // The primes that can divide a Q: n is a square modulo each.
    for (uint32_t p = 2, found = 0; found < kPrimes; p++) {
      bool prime = true;
      for (uint32_t d = 2; d * d <= p; d++) prime = prime && p % d != 0;
      if (prime && power(divide(n, p).second, (p - 1) / 2, p) == 1) primes_[found++] = p;
    }
  }

  // A factor that is neither 1 nor n, after at most so many steps.
  Number run(uint64_t steps) {
    const Number first = root(n_);
    Number p(0u);
    Number q = Number::of(1);
    Number quotient = copy(first);
    Number before = Number::of(1);
    Number numerator = copy(first);
    for (uint64_t step = 1; step <= steps; step++) {
      p = quotient * q - p;
      q = divide(n_ - p * p, q.low()).first;
      if (take(numerator, q, step % 2)) {
        Number factor = try_last();
        if (!factor.is(1) && less(factor, n_)) return factor;
      }
      quotient = divide(first + p, q.low()).first;
      before = std::exchange(numerator, (quotient * numerator + before) % n_);
    }
    bench::fail("no factor after %" PRIu64 " steps", steps);
  }

 private:
  // True if q has small primes alone, and this is a new relation.
  bool take(const Number& numerator, const Number& q, uint8_t negative) {
    Relation& relation = relations_[count_];
    relation.exponents = {};
    Number rest = copy(q);
    for (size_t i = 0; i < kPrimes && !rest.is(1); i++) {
      for (;;) {
        auto [quotient, remainder] = divide(rest, primes_[i]);
        if (remainder != 0) break;
        if (++relation.exponents[i] == 0) bench::lost();
        rest = std::move(quotient);
      }
    }
    if (!rest.is(1)) return false;
    Number square = numerator * numerator % n_ + (negative ? copy(q) : n_ - q);
    if (less(square, n_) || less(n_, square)) bench::lost();
    relation.exponents[kPrimes] = negative;
    relation.numerator = copy(numerator);
    return true;
  }

  // What the last relation gives together with others: 1 if nothing.
  Number try_last() {
    Row row;
    for (size_t i = 0; i <= kPrimes; i++) row.odd[i] = relations_[count_].exponents[i] % 2 != 0;
    row.product[count_] = true;
    for (size_t i = 0; i <= kPrimes; i++) {
      if (!row.odd[i]) continue;
      if (rows_[i].product.none()) {
        rows_[i] = row;
        if (++count_ == kRelations) bench::lost();
        return Number::of(1);
      }
      row.odd ^= rows_[i].odd;
      row.product ^= rows_[i].product;
    }
    std::array<uint32_t, kPrimes> exponents{};
    Number x = Number::of(1);
    Number y = Number::of(1);
    for (size_t r = 0; r <= count_; r++) {
      if (!row.product[r]) continue;
      x = x * relations_[r].numerator % n_;
      for (size_t i = 0; i < kPrimes; i++) exponents[i] += relations_[r].exponents[i];
    }
    for (size_t i = 0; i < kPrimes; i++) {
      for (uint32_t k = 0; k < exponents[i] / 2; k++) y = y * Number::of(primes_[i]) % n_;
    }
    return common_factor(x + (n_ - y), copy(n_));
  }

  const Number& n_;
  std::array<uint32_t, kPrimes> primes_;
  std::array<Relation, kRelations> relations_;
  std::array<Row, kPrimes + 1> rows_;  // the row of an odd power, and of none before it
  size_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  std::string text = arguments.word("number", "320000000010210000000009638567");
  uint64_t steps = arguments.number("steps", 10'000'000);
  arguments.finish();

  bench::Team team;
  std::string found;
  double seconds = team.run_here([&] {
    const Number n = bench::parsed(text);
    if (n.bits() < 32 || n.bits() > 120) bench::fail("--number: of 32 to 120 bits");
    Number factor = Factoring(n).run(steps);
    if (!(copy(n) % factor).is(0)) bench::fail("%s: no factor", bench::decimal(factor).c_str());
    found = bench::decimal(factor);
  });
  if (Number::made != Number::freed)
    bench::fail("%" PRIu64 " numbers freed of %" PRIu64, Number::freed, Number::made);
  bench::Result("cfrac", seconds, Number::freed, team).word("factor", found.c_str()).print();
}
