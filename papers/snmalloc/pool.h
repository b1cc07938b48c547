// Who has which allocator. Each thread has one from its first call to its end; those of threads
// that ended wait in a pool for others (2.3 has one allocator for each thread; the paper does not
// say what becomes of it).
#pragma once

#include "base/macros.h"
#include "engine/engine.h"
#include "snmalloc/allocator.h"

namespace snmalloc {

// The calling thread's; nullptr before its first call and after its end.
extern LOFT_HIDDEN __thread Allocator* mine LOFT_TLS;

// An allocator for a thread without one: the thread's own from now on or, in a thread that has
// ended but still calls, one from the pool for the scope.
class Loan {
 public:
  Loan();
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Allocator* get() const { return allocator_; }  // nullptr without memory

 private:
  Allocator* allocator_ = nullptr;
};

// Around a fork. In the child, the allocators of the threads that are gone may be in the middle of
// anything: they stay as they are, and receive what nobody takes.
void prepare_fork();
void finish_fork(bool child);

engine::Counts sum_of_counts();

}  // namespace snmalloc
