// The hand-shake of NextGen-Malloc (HotOS '23), Pseudo Code 1: mailboxes of application threads,
// and the room, a dedicated thread that executes what they ask for. README.md says what the listing
// leaves open and how that was closed here. nextgen.cc and alone/alone.cc are the two allocators
// that the room may execute; each library has one of them, and a copy of this.
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdint.h>

#include <atomic>

#include "base/macros.h"
#include "os/os.h"

namespace nextgen {

// What the room is asked for: a function of two words.
using Work = void* (*)(uintptr_t, uintptr_t);

// One for each thread; used by one thread at a time, given back when it ends, never destroyed.
// Invariant: while `ready` is set, all but `ready` and `done` are the room's; otherwise the
// owner's.
struct alignas(64) Mailbox {
  std::atomic<bool> ready{false};  // the paper's malloc_ready
  std::atomic<bool> done{false};   // malloc_done
  Work work{};
  uintptr_t first{};  // requested_size
  uintptr_t second{};
  void* block{};  // allocated_block
  std::atomic<bool> owned{true};
  Mailbox* older{};  // never changes
  void* heap{};      // the room's alone, for its allocator: what the box's threads have
};

// The calling thread's; nullptr before its first call, and while the thread must serve itself.
extern __thread Mailbox* own_box __attribute__((tls_model("initial-exec"), visibility("hidden")));

// The room's alone: whose request it executes.
extern LOFT_HIDDEN Mailbox* served_box;

// Starts the room if there is none. The calling thread's mailbox, or nullptr if it has to serve
// itself: (a) until the room runs; (b) after its end; (c) in the room; (d) around a fork.
Mailbox* mailbox_or_start();

// A call that the room has no part in, without having asked for a mailbox.
void count_unserved();

LOFT_ALWAYS_INLINE Mailbox* box_of_mine() {
  return LOFT_LIKELY(own_box != nullptr) ? own_box : mailbox_or_start();
}

// Threads that have a mailbox, and the processors that the process may use: none under
// NEXTGEN_WAIT=yield.
extern LOFT_HIDDEN std::atomic<int> threads;
extern LOFT_HIDDEN int processors;

// The listing's loops are empty: they spin. Where processors are fewer than the threads and the
// room, a spin can keep the very thread off its processor that it waits for. It then yields after
// some microseconds, which is longer than the room takes.
class Spin {
 public:
  void wait() {
    constexpr unsigned kPauses = 100;
    loft::os::pause_briefly();
    // Relaxed: a stale number is one wait of the other kind.
    if (threads.load(std::memory_order_relaxed) < processors) return;
    if (++pauses_ % kPauses == 0) sched_yield();
  }

 private:
  unsigned pauses_ = 0;
};

inline void wait_until_taken(const Mailbox* box) {
  // Acquire pairs with the release in room(): it has read the request before this one.
  for (Spin spin; box->ready.load(std::memory_order_acquire);) spin.wait();
}

// The first half of malloc() in the listing. All of free(), which is not on the critical path
// (3.1.2) and not waited for.
inline void post(Mailbox* box, Work work, uintptr_t first, uintptr_t second) {
  wait_until_taken(box);
  box->work = work;
  box->first = first;
  box->second = second;
  // Relaxed: the release below orders it before the room's answer.
  box->done.store(false, std::memory_order_relaxed);
  // Release pairs with the acquire in room().
  box->ready.store(true, std::memory_order_release);
}

// Both halves. A result of nullptr is ENOMEM: the room set its own errno.
inline void* ask(Mailbox* box, Work work, uintptr_t first, uintptr_t second) {
  post(box, work, first, second);
  // Acquire pairs with the release in room(): the block is there.
  for (Spin spin; !box->done.load(std::memory_order_acquire);) spin.wait();
  void* const block = box->block;
  if (LOFT_UNLIKELY(block == nullptr)) errno = ENOMEM;
  return block;
}

}  // namespace nextgen

// Requests that the room has served so far, in all.
extern "C" LOFT_EXPORT unsigned long loft_nextgen_served() noexcept;
// And calls that threads have served themselves.
extern "C" LOFT_EXPORT unsigned long loft_nextgen_unserved() noexcept;
