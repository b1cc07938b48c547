// A bin: a stack of free objects of one class. It is an array of pointers, so a pop never waits for
// an object's cache line. The slot below the first object is null, so one load both pops and
// detects the empty stack.
//
// What a bin holds is told by its top alone: the objects from there down to the null slot. So the
// child of a fork finds the objects of a thread that it does not have, wherever that thread was
// (bins::inherit). This class sees to the order that makes this true: a slot is written before it
// counts, and an array is complete before the top points into it, and until the top has left it.
#pragma once

#include "base/atomic.h"
#include "base/bound.h"
#include "base/macros.h"

namespace loft {

class Bin {
 public:
  constexpr Bin() = default;
  constexpr Bin(void** top, void** limit) : top_(top), limit_(limit) {}

  // The last object pushed, or the null slot. Others may peek at it.
  void** const& top() const { return top_; }

  void push(void* p) {
    top_[1] = p;
    compiler_fence();
    ++top_;  // adds in memory: one instruction less than storing the new top
  }
  void* pop() { return *top_--; }
  // The same, for a caller that has read top() and the object there.
  void pop_from(void** top) { top_ = top - 1; }

  // Another number of objects, or another array.
  void set_top(void** top) {
    compiler_fence();
    top_ = top;
    compiler_fence();
  }

  // The highest slot that a push may fill; the null slot while the bin is watched, and nullptr
  // where the next push is asked to look. Relaxed: another thread may ask, and nothing follows from
  // it but a slow path. Where the thread sets its limit at that moment, the question is lost.
  void** limit() const { return __atomic_load_n(&limit_, __ATOMIC_RELAXED); }
  void set_limit(void** limit) { __atomic_store_n(&limit_, limit, __ATOMIC_RELAXED); }
  void ask() { set_limit(nullptr); }
  bool is_asked() const { return limit() == nullptr; }

  // Whether a push takes the slow path.
  LOFT_ALWAYS_INLINE bool is_full() const { return reaches(top_, limit_); }

  // For sequences, by which a processor's stacks change (percpu/percpu.h). They know where the two
  // lie.
  void*** top_word() { return &top_; }
  void*** limit_word() { return &limit_; }

 private:
  void** top_{};
  void** limit_{};
};

}  // namespace loft
