// The atomic type of every shared word in loft. The interleaving explorer in test/model supplies
// its own header of this name. It therefore explores the code that ships.
//
// What is exchanged, compared or added to has four bytes at least. RISC-V has no such instruction
// for less, and GCC 12 calls libatomic for it, which loft does not link.
#pragma once

#include <atomic>
#include <cstddef>

namespace loft {

template <class T>
using Atomic = std::atomic<T>;

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

// A word that is shared, and plain where one thread alone has it.
template <class T>
inline T load_word(const T& word, std::memory_order order) {
  return __atomic_load_n(&word, static_cast<int>(order));
}
template <class T>
inline void store_word(T& word, T value, std::memory_order order) {
  __atomic_store_n(&word, value, static_cast<int>(order));
}

inline void thread_fence(std::memory_order order) { std::atomic_thread_fence(order); }

// A counter with one writer and any number of readers. Relaxed: a reader needs a recent value, and
// the counter publishes nothing else. A single writer needs no fetch_add: a locked instruction
// would gain nothing over a load and a store.
class Counter {
 public:
  void add(size_t n) { value_.store(value_.load(memory_order_relaxed) + n, memory_order_relaxed); }
  size_t get() const { return value_.load(memory_order_relaxed); }

 private:
  Atomic<size_t> value_{0};
};

// Stops the compiler from moving memory accesses across this point. For what the thread itself may
// see in a signal handler, and for what the child of a fork reads of a thread that it does not
// have.
inline void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace loft
