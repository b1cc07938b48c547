// The queue of what other threads freed: any thread puts, the owner takes (2.2). It is never empty:
// its last message stays until another one is behind it.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/atomic.h"
#include "snmalloc/message.h"
#include "snmalloc/parameters.h"

namespace snmalloc {

class RemoteQueue {
 public:
  RemoteQueue() : front_(stub()), back_(stub()) { Message::Queue::end(stub()); }

  // Any thread: a list, `count` messages. One exchange, no loop.
  void put(uintptr_t first, uintptr_t last, uint64_t count) {
    Message::Queue::end(last);
    // Release publishes the end that was just written, before the list can be reached. Acquire
    // pairs with the release of whoever put the last list: its end has to be older than the link
    // that replaces it here. The paper has the release alone, and an address dependency for the
    // rest.
    const uintptr_t before = back_.exchange(last, loft::memory_order_acq_rel);
    // Until here the list is in the queue but cannot be reached, nor what comes behind it.
    Message::Queue::set_next(before, first);
    if (LOFT_UNLIKELY(parameters.pressure != 0)) press(count);
  }

  // The owner, from here on.
  bool has_any() const { return Message::Queue::has_next(front_); }

  // The oldest message; 0 if there is none, or none that can be reached yet. No atomic instruction.
  // The first one ever is the stub.
  uintptr_t take() {
    const uintptr_t next = Message::Queue::next(front_);
    if (next == 0) return 0;
    const uintptr_t first = front_;
    front_ = next;
    taken_.add(1);
    return first;
  }
  bool is_stub(uintptr_t message) const { return message == stub(); }

  // How many messages the next look may take in. If it adapts: one, and one more for each kPatience
  // looks that left messages behind, half of which a look that leaves none forgets. So it comes to
  // be the least that keeps up, and of n messages that come together no look takes in more than the
  // root of n / 128, and one: 7 of five thousand.
  // The latency program's p99.9 under load: 4.1 us without a budget, and with a patience of 16, 64
  // and 256 looks 4.1, 2.2 and 1.4. That memory waits meanwhile is for slower paths to end
  // (Allocator::look_for).
  uint64_t budget() const {
    return parameters.adapts ? 1 + behind_ / kPatience : parameters.budget;
  }
  void note_look() { behind_ = has_any() ? behind_ + 1 : behind_ / 2; }

  // In the child of a fork: what a thread that is gone had not linked is lost, and the queue ends
  // before it. Without this, nothing that is put later would be reached.
  void mend() {
    uintptr_t last = front_;
    for (uintptr_t next = 0; (next = Message::Queue::next(last)) != 0;) last = next;
    back_.store(last, loft::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kPatience = 256;

  uintptr_t stub() const { return reinterpret_cast<uintptr_t>(stub_); }

  // BatchIt 5.2: the allocator as back-pressure. Relaxed: the length is a hint.
  LOFT_COLD void press(uint64_t count) {
    const uint64_t put = put_.fetch_add(count, loft::memory_order_relaxed) + count;
    if (put - taken_.get() > parameters.pressure) sched_yield();
  }

  alignas(16) Word stub_[4] = {};
  uintptr_t front_;
  loft::Counter taken_;
  uint64_t behind_ = 0;  // looks
  // What every sender writes has a cache line of its own.
  alignas(64) loft::Atomic<uintptr_t> back_;
  loft::Atomic<uint64_t> put_{0};  // only under pressure
};

}  // namespace snmalloc
