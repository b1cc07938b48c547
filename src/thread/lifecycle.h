// A thread's block from its first call to its end, and what a fork does to the blocks of the
// threads that the child does not have.
#pragma once

#include "cache/thread.h"
#include "cpu/core.h"

namespace loft::lifecycle {

// The block of the calling thread, set up if this is its first call. nullptr for a thread whose
// destructors have run, or without memory: then the caller serves itself without a block. nullptr,
// too, where processors have blocks, unless the thread has had one from before that was decided.
Thread* attach();

// core::enter, for a thread that counts as one of the program's from its first call on.
Thread* enter_core();

// A slow path of the calling thread. Where processors have blocks, it has the block of one, under
// its lock: then no second one may be made while it lives.
class SlowPath {
 public:
  SlowPath() : thread_(this_thread()) {
    if (LOFT_UNLIKELY(thread_ == &stand_in)) thread_ = core::in_use() ? enter_core() : attach();
  }
  ~SlowPath() {
    if (LOFT_UNLIKELY(thread_ != nullptr && thread_->core != nullptr)) core::leave(thread_->core);
  }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;

  Thread* thread() const { return thread_; }  // as of attach, or of core::enter

 private:
  Thread* thread_;
};

// One thread at a time goes round the threads, and holds this meanwhile. Taken before all locks of
// the list.
os::Lock& round();

// Calls visit(context, thread) for some of the threads there are, the next ones at the next call,
// until it returns false. They cannot end meanwhile. True if the last thread was among them.
bool visit_threads(bool (*visit)(void*, Thread*), void* context);
void start_over();  // the next call begins with the first

// Gives the thread, as attach or a SlowPath found it, a heap if it has none. False without memory
// or heap ids, and for nullptr.
bool give_heap(Thread* thread);

// The calling thread has no block any more: all that it held goes home.
void give_up_block();

struct Totals {
  unsigned long attached, started, exited, locks, waits;
};
Totals totals();

}  // namespace loft::lifecycle
