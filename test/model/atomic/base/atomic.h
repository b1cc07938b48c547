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
using std::memory_order_seq_cst;

template <class T>
class Atomic {
  // Each operation says where it stands in the source: the explorer weakens its order there.
  using Place = model::Place;

 public:
  constexpr Atomic() : value_{} {}
  constexpr Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order, Place place = Place::current()) const {
    return value(model::load(&value_, sizeof(T), order, place));
  }
  void store(T value, std::memory_order order, Place place = Place::current()) {
    model::store(&value_, sizeof(T), bits(value), order, place);
  }
  T exchange(T desired, std::memory_order order, Place place = Place::current()) {
    return value(model::exchange(&value_, sizeof(T), bits(desired), order, place));
  }
  T fetch_add(T addend, std::memory_order order, Place place = Place::current()) {
    return value(model::fetch_add(&value_, sizeof(T), bits(addend), order, place));
  }
  T fetch_or(T more, std::memory_order order, Place place = Place::current()) {
    return value(model::fetch_or(&value_, sizeof(T), bits(more), order, place));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure, Place place = Place::current()) {
    const uint64_t before = bits(expected);
    const uint64_t found =
        model::compare_exchange(&value_, sizeof(T), before, bits(desired), success, failure, place);
    expected = value(found);
    return found == before;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order,
                               Place place = Place::current()) {
    return compare_exchange_strong(expected, desired, order, memory_order_relaxed, place);
  }
  // What fails for nothing is tried again, and reads what is there then.
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure, Place place = Place::current()) {
    return compare_exchange_strong(expected, desired, success, failure, place);
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

// A word that is shared, and plain where one thread alone has it.
template <class T>
T load_word(const T& word, std::memory_order order, model::Place place = model::Place::current()) {
  return static_cast<T>(model::load(&word, sizeof(T), order, place));
}
template <class T>
void store_word(T& word, T value, std::memory_order order,
                model::Place place = model::Place::current()) {
  model::store(&word, sizeof(T), value, order, place);
}

// Statistics steer nothing: no interleaving at them, and no race.
class Counter {
 public:
  __attribute__((no_sanitize("thread"))) void add(unsigned long n) { value_ += n; }
  __attribute__((no_sanitize("thread"))) unsigned long get() const { return value_; }

 private:
  unsigned long value_ = 0;
};

inline void thread_fence(std::memory_order order, model::Place place = model::Place::current()) {
  model::fence(order, place);
}
inline void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace loft
