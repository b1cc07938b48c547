// Stands for src/base/atomic.h when the code is compiled for the explorer.
#pragma once

#include <atomic>
#include <cstring>

#include "engine.h"

namespace loft {

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

template <class T>
class Atomic {
 public:
  constexpr Atomic() : value_{} {}
  constexpr Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order) const { return value(model::load(&value_, sizeof(T), order)); }
  void store(T value, std::memory_order order) {
    model::store(&value_, sizeof(T), bits(value), order);
  }
  T exchange(T desired, std::memory_order order) {
    return value(model::exchange(&value_, sizeof(T), bits(desired), order));
  }
  T fetch_add(T addend, std::memory_order order) {
    return value(model::fetch_add(&value_, sizeof(T), bits(addend), order));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) {
    const uint64_t before = bits(expected);
    const uint64_t found =
        model::compare_exchange(&value_, sizeof(T), before, bits(desired), success, failure);
    expected = value(found);
    return found == before;
  }

 private:
  static uint64_t bits(T value) {
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
  }
  static T value(uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
  }

  T value_;
};

// Statistics steer nothing: no interleaving at them.
class Counter {
 public:
  void add(unsigned long n) { value_ += n; }
  unsigned long get() const { return value_; }

 private:
  unsigned long value_ = 0;
};

inline void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace loft
