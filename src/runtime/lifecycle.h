// A thread's block, from the thread's first call to its end; what threads hold while they sleep;
// how many threads there are. A fork's child empties the blocks of the threads that it does not
// have, and abandons their heaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "cache/percpu.h"
#include "cache/thread_cache.h"
#include "runtime/youth.h"

namespace loft::lifecycle {

// The block of the calling thread, set up at its first call. nullptr, so that the caller must do
// without a block,
//   (a) if the thread's destructors have run, or it is loft's own;
//   (b) without memory;
//   (c) under owner=cpu, unless the thread got its block before owner=cpu was chosen;
//   (d) if the system would not tell of the thread's end, unless it is the process's first.
ThreadCache* attach();

// Calls percpu::enter. At a thread's first call, counts it among the program's.
ThreadCache* enter_processor();

// A slow path of the calling thread. Under owner=cpu it holds the lock of a processor's block:
// then the thread must not construct a second one while the first lives.
class SlowPath {
 public:
  SlowPath() : thread_(this_thread()) {
    if (LOFT_UNLIKELY(thread_ == &empty_cache))
      thread_ = percpu::in_use() ? enter_processor() : attach();
  }
  ~SlowPath() {
    if (LOFT_UNLIKELY(thread_ != nullptr && thread_->processor != nullptr))
      percpu::leave(thread_->processor);
  }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;

  ThreadCache* thread() const { return thread_; }  // nullptr: see attach and percpu::enter

 private:
  ThreadCache* thread_;
};

// Set once, by background::enable. A thread calls it at its end, when its block is gone, with no
// lock held.
extern LOFT_HIDDEN Atomic<void (*)()> at_thread_end;

// Whoever visits the threads' blocks holds it from the first call below to the last. It comes
// before all other locks that a fork takes.
extern LOFT_HIDDEN os::Lock visiting;

// Calls visit(context, block) for the blocks of up to 512 threads, until it returns false. No
// thread can end meanwhile. The next call goes on with the next block. True after the last one.
bool visit_threads(bool (*visit)(void*, ThreadCache*), void* context);
void restart_visits();  // the next call begins with the first

// Gives a block, as attach or a SlowPath returned it, a heap and its mode, if it has none. False
// for nullptr, or without memory or heap ids.
bool give_first_heap(ThreadCache* thread);
inline bool give_heap(ThreadCache* thread) {
  return LOFT_LIKELY(thread != nullptr && thread->mode != Mode::kUnset) || give_first_heap(thread);
}

// The calling thread has that many bytes more, which neither a heap nor a cache has counted
// (stats/net.h); modulo 2^64.
void count_net(size_t bytes);

// Takes the block from the calling thread. All objects in it return to their heaps. The thread's
// next call sets up another one.
void give_up_cache();

// Between these two calls the caller holds all locks from `visiting` on, in the order of
// src/README.md: heaps and spans stand still, while threads go on in their own caches. The caller
// must hold none of them before, and call nothing that takes one.
void lock_all();
void unlock_all();

struct ThreadTotals {
  size_t attached, started, exited, locks, waits;
};
ThreadTotals totals();

}  // namespace loft::lifecycle

// Threads that sleep. What one holds in its cache meanwhile, nobody else can take out.

namespace loft::idle {

// What all threads except the caller hold in their caches.
struct Unreached {
  size_t threads;
  size_t bytes;  // about
};
Unreached unreached();

// The calling thread is about to wait. Empties its caches and purges its heap.
void begin_wait();

}  // namespace loft::idle

// The program's threads that have called loft.

namespace loft::census {

// Of the calling thread.
enum Stage : uint8_t {
  kNone,          // has not called loft, or has a block
  kOnProcessors,  // owner=cpu: uses processors' blocks, and is counted
  kUncounted,     // gets no block: its destructors have run, its end would not be told, or the
                  // thread is loft's own
};
extern LOFT_HIDDEN LOFT_TLS __thread Stage stage;

// Written under the lock in lifecycle.cc.
extern LOFT_HIDDEN Counter started;        // blocks given to threads
extern LOFT_HIDDEN Counter exited;         // blocks taken back
extern LOFT_HIDDEN Counter on_processors;  // threads of that stage, now

// The calling thread has no block, and gets none from now on.
inline void do_without_cache() {
  stage = kUncounted;
  youth::end();
}

// Whether at least two of the program's live threads have called loft.
inline bool has_other_threads() { return started.get() - exited.get() + on_processors.get() >= 2; }

}  // namespace loft::census
