#include "runtime/lifecycle.h"

#include <new>

#include "base/list.h"
#include "base/macros.h"
#include "base/options.h"
#include "base/peek.h"
#include "cache/arrays.h"
#include "cache/batch_cache.h"
#include "cache/bins.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "heap/registry.h"
#include "os/limits.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/metadata.h"
#include "space/span.h"

namespace loft {

namespace lifecycle {

constinit Atomic<void (*)()> at_thread_end{nullptr};
constinit os::Lock visiting;

namespace {

// Guards the lists of blocks and the census. Taken after `visiting`, and before any heap's.
constinit os::Lock lock;
constinit List<ThreadCache> threads;            // blocks of running threads
constinit List<ThreadCache> warm;               // retired last; their bins keep first arrays
constinit List<ThreadCache> unused;             // the other blocks
constinit ThreadCache* next_visited = nullptr;  // nullptr: the first one
constinit bool last_is_gone = false;  // the last block was the next one, and has been retired

// Abandons the thread's own heap. One that all share stays with the others.
void give_up_heap(ThreadCache* thread) {
  thread->mode = Mode::kUnset;
  thread->owner = kNeverOwner;
  if (thread->heap != nullptr && thread->heap != registry::common_heap()) {
    registry::abandon(thread->heap);
  }
  thread->heap = nullptr;
}

// Returns every object that the thread holds to its heap, and abandons the thread's own heap.
void hand_over(ThreadCache* thread) {
  guest::empty(thread);  // also of a thread that only frees, and has no heap
  if (thread->heap != nullptr) bins::flush_all(thread);
  medium_cache::release_all(thread);
  batch_cache::send_all(thread);
  large::release_descriptors(&thread->spare_large);
  Heap* const heap = thread->heap;
  if (heap == nullptr) return;
  const bool own = heap != registry::common_heap();
  if (own) {
    const os::Guard guard(heap->lock());
    heap->drain_all();
    heap->check();
  }
  give_up_heap(thread);
}

// Under the lock, or in a fork's child, which is alone.
void retire(ThreadCache* thread, List<ThreadCache>& where) {
  if (next_visited == thread) {
    next_visited = thread->next;
    last_is_gone = next_visited == nullptr;
  }
  threads.remove(thread);
  medium_cache::reset(thread);
  thread->spare_large = large::Descriptors{};
  pool::forget(thread);
  where.push_front(thread);
  census::exited.add(1);
  limits::count_caches(-size_t{1});
}

// Retires a block that keeps its first arrays for the next thread: to make and free arrays was a
// third of the cost of a short-lived thread. Under the lock. If more than kMostWarm blocks are
// warm, returns the oldest. The caller releases its arrays without the lock.
ThreadCache* retire_warm(ThreadCache* thread) {
  constexpr unsigned kMostWarm = 4;
  retire(thread, warm);
  youth::block_at_hand.store(true, memory_order_relaxed);
  unsigned blocks = 1;
  ThreadCache* oldest = warm.front();
  for (; oldest->next != nullptr; oldest = oldest->next) ++blocks;
  if (blocks <= kMostWarm) return nullptr;
  warm.remove(oldest);
  return oldest;
}

// (If a fork happens meanwhile, the child loses the block.)
void cool_down(ThreadCache* block) {
  bins::reset(block, false);
  const os::Guard guard(lock);
  unused.push_front(block);
}

// The value of the exit hook for a thread that uses processors' blocks.
void* const on_processors = &empty_cache;

void count_on_processors(size_t more) {
  const os::Guard guard(lock);
  census::on_processors.add(more);
}

void tell_of_end() {
  if (auto* call = at_thread_end.load(memory_order_relaxed); call != nullptr) call();
}

// Runs after the thread-local destructors of C++, among the destructors of the program's keys.
// These come in passes. If this waited for a later pass, more of them would find the block. But a
// thread that first allocates in the last pass would never abandon its heap.
void on_exit(void* value) {
  census::stage = census::kUncounted;
  if (value == on_processors) {
    count_on_processors(-1UL);
    return tell_of_end();
  }
  auto* thread = static_cast<ThreadCache*>(value);
  self = &empty_cache;
  hand_over(thread);
  bins::reset(thread, true);
  ThreadCache* cold = nullptr;
  {
    const os::Guard guard(lock);
    cold = retire_warm(thread);
  }
  if (cold != nullptr) cool_down(cold);
  tell_of_end();
}

// Asks the system to call on_exit at the ends of threads, once: as the library is loaded, when the
// program cannot have used up the keys that this takes, or at a first call before that. Without a
// lock: another library may stand in front of libc's function, and allocate.
LOFT_AT_LOAD void ask_for_exit_hook() {
  static constinit Atomic<uint32_t> asked{0};  // relaxed: who comes second does without
  if (asked.exchange(1, memory_order_relaxed) == 0) os::on_thread_exit(on_exit);
}

// For a thread whose end the system would not tell. Its block would be lost then, with all that it
// has: so it gets none, and allocates as after its end. The first thread keeps its block; it mostly
// ends with the process.
LOFT_COLD ThreadCache* keep_if_told(ThreadCache* thread) {
  ask_for_exit_hook();
  if (os::set_thread_exit_value(thread) || os::is_first_thread()) return thread;
  give_up_cache();
  census::do_without_cache();
  return nullptr;
}

// Under the lock.
ThreadCache* unused_or_new() {
  ThreadCache* thread = warm.front();
  if (thread != nullptr) {
    warm.remove(thread);
    youth::block_at_hand.store(!warm.empty(), memory_order_relaxed);
  } else if (thread = unused.front(); thread != nullptr) {
    unused.remove(thread);
  } else {
    if (!span::initialise()) return nullptr;
    thread = static_cast<ThreadCache*>(metadata::allocate_apart(sizeof(ThreadCache) + kBatchBytes));
    if (thread == nullptr) return nullptr;
    thread->set_up();
    add_cache(thread);
    guest::join(thread);
  }
  thread->counters.net_bytes.add(youth::end() - thread->counters.net_bytes.get());
  threads.push_front(thread);
  census::started.add(1);
  limits::count_caches(1);
  return thread;
}

}  // namespace

ThreadCache* attach() {
  ThreadCache* thread = this_thread();
  if (LOFT_LIKELY(thread != &empty_cache)) return thread;
  if (LOFT_UNLIKELY(census::stage == census::kUncounted) || percpu::in_use()) return nullptr;
  {
    const os::Guard guard(lock);
    thread = unused_or_new();
  }
  if (thread == nullptr) return nullptr;
  self = thread;  // first: the next call may allocate
  if (LOFT_UNLIKELY(!os::set_thread_exit_value(thread))) return keep_if_told(thread);
  return thread;
}

ThreadCache* enter_processor() {
  if (LOFT_UNLIKELY(census::stage == census::kNone)) {
    census::stage = census::kOnProcessors;  // first: the calls below may allocate
    if (os::set_thread_exit_value(on_processors)) count_on_processors(1);
  }
  return percpu::enter();
}

void restart_visits() {
  const os::Guard guard(lock);
  next_visited = nullptr;
  last_is_gone = false;
}

bool visit_threads(bool (*visit)(void*, ThreadCache*), void* context) {
  constexpr unsigned kMost = 512;
  const os::Guard guard(lock);
  if (LOFT_UNLIKELY(last_is_gone)) {
    last_is_gone = false;
    return true;
  }
  ThreadCache* thread = next_visited != nullptr ? next_visited : threads.front();
  bool more = true;
  for (unsigned looks = 0; more && looks < kMost && thread != nullptr; ++looks) {
    more = visit(context, thread);
    thread = thread->next;
  }
  next_visited = thread;
  return thread == nullptr;
}

bool give_first_heap(ThreadCache* thread) {
  if (LOFT_UNLIKELY(thread == nullptr)) return false;
  const bool shares = registry::all_share();
  // A signal handler that allocates may come between two of these stores, and finishes them.
  if (thread->heap == nullptr) {
    if (shares) {
      thread->heap = registry::shared_heap();
    } else {
      registry::adopt(thread->heap);
    }
    if (thread->heap == nullptr) return false;
    thread->trade = Trade{};
  }
  compiler_fence();
  thread->mode = Mode::kThreads;
  thread->owner = thread->heap->id();
  return true;
}

void count_net(size_t bytes) {
  if (ThreadCache* const thread = attach(); thread != nullptr)
    thread->counters.net_bytes.add(bytes);
}

void give_up_cache() {
  ThreadCache* thread = this_thread();
  if (thread == &empty_cache) return;
  self = &empty_cache;
  os::set_thread_exit_value(nullptr);
  hand_over(thread);
  bins::reset(thread, false);
  const os::Guard guard(lock);
  retire(thread, unused);
}

ThreadTotals totals() {
  const size_t exited = census::exited.get();
  const size_t started = census::started.get();
  return {started - exited, started, exited, lock.acquisitions(), lock.waits()};
}

// --- fork. It holds all locks, so that every structure under a lock is whole in the child.

namespace {

// Of a thread that the child does not have, which may have been between any two stores:
// bins::inherit and medium_cache::inherit say what of its block they rely on. What it had collected
// for other heaps is lost. All else in the block returns to its heap, and the thread's own heap is
// abandoned.
void bury(ThreadCache* dead) {
  dead->forget_batches();
  guest::inherit(dead);
  bins::inherit(dead);
  batch_cache::send_all(dead);  // of what lay in the bins
  medium_cache::inherit(dead);
  give_up_heap(dead);
  retire(dead, unused);
}

// The child has one thread. Its heap and block are as they were.
void bury_the_others() {
  pool::forget_all();
  void* const value = os::thread_exit_value();
  const ThreadCache* mine = value == on_processors ? nullptr : static_cast<ThreadCache*>(value);
  for (ThreadCache* thread = threads.front(); thread != nullptr;) {
    ThreadCache* next = thread->next;
    // `self` is the only mark of a block whose exit value the system could not store.
    if (thread != mine && thread != this_thread()) bury(thread);
    thread = next;
  }
  for (ThreadCache* thread = newest_cache(); thread != nullptr; thread = thread->older) {
    guest::begin_child(thread);
  }
  const size_t now = census::stage == census::kOnProcessors ? 1 : 0;
  census::on_processors.add(now - census::on_processors.get());
}

}  // namespace

void lock_all() {
  visiting.lock();
  guest::lock(LockStep::kBeforeBlocks);
  lock.lock();
  registry::prepare_fork();
  guest::lock(LockStep::kAfterHeaps);
  span::prepare_fork();
}

namespace {

void finish_fork(bool child) {
  span::finish_fork(child);
  guest::unlock(LockStep::kAfterHeaps, child);
  registry::finish_fork(child);
  lock.after_fork(child);
  guest::unlock(LockStep::kBeforeBlocks, child);
  visiting.after_fork(child);
}

void prepare_fork() {
  os::lock_streams();
  lock_all();
}

void in_parent() {
  finish_fork(false);
  os::unlock_streams(false);
}

void in_child() {
  finish_fork(true);
  os::unlock_streams(true);
  bury_the_others();
}

__attribute__((constructor(101))) void register_handlers() {
  ask_for_exit_hook();
  os::on_fork(prepare_fork, in_parent, in_child);
}

}  // namespace

void unlock_all() { finish_fork(false); }

}  // namespace lifecycle
}  // namespace loft

namespace loft::idle {

namespace {

size_t bytes_in_caches(const ThreadCache* thread) {
  const void* recent = nullptr;
  size_t bytes = medium_cache::held(thread, &recent);
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    bytes +=
        (bins::held(thread, c, percpu::top_of(thread, c)) + guest::held(thread, c)) * class_size(c);
  }
  return bytes;
}

bool count(void* context, ThreadCache* thread) {
  Unreached& sum = *static_cast<Unreached*>(context);
  const size_t bytes = thread == this_thread() ? 0 : bytes_in_caches(thread);
  if (bytes == 0) return true;
  ++sum.threads;
  sum.bytes += bytes;
  return true;
}

}  // namespace

Unreached unreached() {
  Unreached sum = {};
  const os::Guard guard(lifecycle::visiting);
  lifecycle::restart_visits();
  while (!lifecycle::visit_threads(count, &sum)) {
  }
  return sum;
}

void begin_wait() {
  // Without a block it keeps nothing.
  if (this_thread() == &empty_cache && !percpu::in_use()) return;
  const lifecycle::SlowPath slow;
  ThreadCache* const thread = slow.thread();
  // Under owner=cpu, other threads use these caches, too.
  if (thread == nullptr || thread->processor != nullptr) return;
  thread->counters.emptied.add(1);
  guest::empty(thread);
  if (thread->heap != nullptr) {
    bins::flush_all(thread);
    bins::reset(thread, true);
  }
  medium_cache::release_all(thread);
  batch_cache::send_all(thread);
  if (thread->heap == nullptr || thread->heap == registry::common_heap()) return;
  const os::Guard guard(thread->heap->lock());
  thread->heap->purge(nullptr, Heap::Walk::kNowAndThen);
}

}  // namespace loft::idle

namespace loft::census {

constinit LOFT_TLS __thread Stage stage = kNone;
constinit Counter started;
constinit Counter exited;
constinit Counter on_processors;

}  // namespace loft::census
