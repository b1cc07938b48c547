// The atomic type of every shared word in loft. The interleaving explorer in test/model supplies
// its own header of this name, so that the very code that ships is what it explores.
#pragma once

#include <atomic>

namespace loft {

template <class T>
using Atomic = std::atomic<T>;

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

// A counter that one thread writes and any thread may read. Relaxed: a reader wants a recent value,
// and nothing else is published by it. Load and store instead of fetch_add, because there is a
// single writer and a locked instruction would buy nothing.
class Counter {
 public:
  void add(unsigned long n) {
    value_.store(value_.load(memory_order_relaxed) + n, memory_order_relaxed);
  }
  unsigned long get() const { return value_.load(memory_order_relaxed); }

 private:
  Atomic<unsigned long> value_{0};
};

// Keeps the compiler from moving memory accesses across this point. A thread that dies in a fork
// leaves its private structures as its stores left them, in program order; the child relies on it.
inline void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace loft
