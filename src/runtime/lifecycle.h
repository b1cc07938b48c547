// A thread's block, from the thread's first call to its end; what threads hold while they sleep;
// how many there are. After a fork, the child takes over the blocks of the threads that it does not
// have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "cache/percpu.h"
#include "cache/thread_cache.h"

namespace loft::lifecycle {

// The block of the calling thread, set up at its first call. nullptr, so that the caller must do
// without a block,
//   (a) if the thread's destructors have run;
//   (b) without memory;
//   (c) under owner=cpu, unless the thread got its block before owner=cpu was chosen;
//   (d) without one of the system's keys for threads, unless it is the process's first.
ThreadCache* attach();

// Calls percpu::enter. At its first call, counts the thread among the program's.
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

  ThreadCache* thread() const { return thread_; }  // as of attach, or of percpu::enter

 private:
  ThreadCache* thread_;
};

// Set once, when the library is loaded, to a function of the purge floor. A thread calls it at its
// end, after it has given up its block, with no lock held.
extern LOFT_HIDDEN Atomic<void (*)()> at_thread_end;

// Held by the one thread that visits all threads. Taken before every other lock of loft that a fork
// takes.
os::Lock& round();

// Calls visit(context, thread) for some of the threads, until it returns false. The next call goes
// on with the next thread. No thread can end meanwhile. True if the last thread was visited.
bool visit_threads(bool (*visit)(void*, ThreadCache*), void* context);
void restart_visits();  // the next call begins with the first

// Gives the block from attach or a SlowPath a heap if it has none, and with it its mode. False for
// nullptr, or without memory or heap ids.
bool give_heap(ThreadCache* thread);

// The calling thread has that many bytes more, which neither a heap nor a cache has counted
// (stats/net.h); modulo 2^64.
void count_net(size_t bytes);

// Removes the calling thread's block. All objects in it return to their heaps.
void give_up_cache();

// Between these two calls all locks of loft are held, which its own threads take, too. For one
// thread at a time, which holds none and calls nothing that takes one.
void lock_all();
void unlock_all();

struct ThreadTotals {
  size_t attached, started, exited, locks, waits;
};
ThreadTotals totals();

}  // namespace loft::lifecycle

// What threads hold in their caches while they sleep. Nobody else can empty these.

namespace loft::idle {

// What all threads except the caller hold in their caches. Only the thread itself can reach it.
struct Unreached {
  size_t threads;
  size_t bytes;  // about
};
Unreached unreached();

// The calling thread is about to wait. Empties its caches and rests its heap.
void begin_wait();

}  // namespace loft::idle

// Counts the program's threads, and records the calling thread's stage of use of loft.

namespace loft::census {

// The stage of the calling thread.
enum Stage : uint8_t {
  kNone,       // has not called loft, or has a block
  kBlockless,  // uses processors' blocks and is counted
  kExited,     // its destructors have run, or would not be told; or the thread is loft's own
};
extern LOFT_HIDDEN LOFT_TLS __thread Stage stage;

// Written under the lock in lifecycle.cc.
extern LOFT_HIDDEN Counter started;
extern LOFT_HIDDEN Counter exited;
extern LOFT_HIDDEN Counter blockless;  // threads that now use processors' blocks

// Marks the calling thread as one that gets no block, as loft's own. It is not counted as the
// program's.
inline void do_without_cache() { stage = kExited; }

// Whether at least two of the program's live threads have called loft.
inline bool has_other_threads() { return started.get() - exited.get() + blockless.get() >= 2; }

}  // namespace loft::census
