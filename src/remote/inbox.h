// The inbox of a heap: a queue with many producers and one consumer at a time (ISMM'19 2.2). A
// producer appends a whole chain in two steps: it exchanges the back for its last message, and then
// links the old back to its first. In between, the queue is cut behind the old back: the consumer
// stops there and continues later. Nothing is lost, and no thread waits. The consumer needs an
// exchange only to queue the stub.
//
//   front -> m -> m -> ... -> back           consumer reads at front, producers append at back
//
// The consumer takes a message only once it has a successor: from then on no producer touches it.
// The back gets one from the next push, or from complete(), which appends the stub: a message that
// belongs to the inbox and carries nothing.
//
// Until then, a message's link is its end mark (remote/message.h). A link that is neither that nor
// leads to a message was overwritten after the free. The consumer then goes on at the stub, which
// it appends if need be: this message and all others in front of the stub are lost.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "remote/message.h"

namespace loft {

class Inbox {
 public:
  // `whole`: what the inbox is a part of.
  explicit Inbox(void* whole = nullptr) : back_(&stub_), front_(&stub_), whole_(whole) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void* whole() const { return whole_; }

  // Any thread. The chain is not empty, and the link of its last message is an end.
  void push(Chain chain) {
    // Acquire: another producer wrote the old back, and the bits above its pointer are read below.
    // Pairs with the release half of that producer's exchange. Release: publishes our chain's links
    // and words, the end included, to the producer that gets our last message as its old back.
    Message* old_back = back_.exchange(chain.last, memory_order_acq_rel);
    const uint64_t link = old_back->link.load(memory_order_relaxed);
    // Release: pairs with the consumer's acquire load of this link, which then reads the chain.
    old_back->link.store(relinked(old_back, link, chain.first), memory_order_release);
  }

  // Consumer only, under the heap's lock. Calls consume(message, tag) for each message that has a
  // successor, until the byte counts that it returns reach `budget`; for at least one, so that
  // repeated calls end. consume may reuse the message. Links lie in freed memory, so drain follows
  // one only if check(message, link) allows it; check must refuse a link without a tag. True if the
  // budget stopped the drain.
  template <class Check, class Consume>
  bool drain(size_t budget, Check&& check, Consume&& consume) {
    size_t taken = 0;
    Message* message = front_.load(memory_order_relaxed);
    bool more = false;
    for (;;) {
      // Acquire: pairs with the release store in push. The contents of the next message are seen.
      const uint64_t link = meant(message, message->link.load(memory_order_acquire));
      if (is_end(message, link)) break;
      Message* next = next_in(link);
      if (taken >= budget && taken != 0) {
        more = true;
        break;
      }
      const bool is_stub = message == &stub_;
      if (is_stub) stub_queued_ = false;
      if (LOFT_UNLIKELY(leads_astray(message, link, check))) {
        if (!stub_queued_) queue_stub();
        message = &stub_;
        continue;
      }
      __builtin_prefetch(next);
      if (!is_stub) taken += consume(message, tag_in(link));
      message = next;
    }
    front_.store(message, memory_order_relaxed);
    return more;
  }

  // Consumer only, between two drains. Makes the last message drainable: the two drains consume all
  // that was pushed before the first, unless a budget or a producer between its steps stops one.
  void complete() {
    if (front_.load(memory_order_relaxed) == &stub_ || stub_queued_) return;
    queue_stub();
  }

  // Whether a message may be waiting. Outside the lock this is a hint. A stub at the back does not
  // mean an empty queue: a drain stopped by its budget leaves messages before it.
  bool maybe_pending() const {
    // One test for both.
    const auto stub = reinterpret_cast<uintptr_t>(&stub_);
    return ((reinterpret_cast<uintptr_t>(back_.load(memory_order_relaxed)) ^ stub) |
            (reinterpret_cast<uintptr_t>(front_.load(memory_order_relaxed)) ^ stub)) != 0;
  }

  // Calls visit(message, tag) for all that is queued, and leaves it there. `check` as for drain,
  // but silent. Under the heap's lock. Misses what lies behind a cut.
  template <class Check, class Visit>
  void for_each(Check&& check, Visit&& visit) const {
    const Message* message = front_.load(memory_order_relaxed);
    for (;;) {
      // Acquire: as in drain.
      const uint64_t ahead = meant(message, message->link.load(memory_order_acquire));
      if (message != &stub_) visit(message, tag_in(ahead));
      if (is_end(message, ahead)) return;
      if (leads_astray(message, ahead, check)) return;
      message = next_in(ahead);
    }
  }

  // Writes the stub with the key that has just been set. The program has no second thread yet, and
  // nothing is queued.
  void rewrite_stub() { end_stub(); }

  // Only in the child of a fork. A producer that the child does not have may have been between its
  // two steps: what lies behind its cut is lost. The queue then ends (a) at the cut, or (b) at a
  // link that check(message, link) refuses, which the next drain finds.
  template <class Check>
  void repair(Check&& check) {
    Message* last = front_.load(memory_order_relaxed);
    bool stub_behind_front = false;
    for (;;) {
      const uint64_t link = meant(last, last->link.load(memory_order_relaxed));
      if (is_end(last, link)) break;
      if (leads_astray(last, link, check)) break;
      last = next_in(link);
      stub_behind_front = stub_behind_front || last == &stub_;
    }
    stub_queued_ = stub_behind_front;
    back_.store(last, memory_order_relaxed);
  }

 private:
  // For a link that is no end. It may lead to the stub, which does not lie in an object.
  template <class Check>
  bool leads_astray(const Message* message, uint64_t link, Check&& check) const {
    return (next_in(link) != &stub_ || tag_in(link) == 0) && !check(message, link);
  }

  // Relaxed: no producer can reach the stub before the push that follows.
  void end_stub() { stub_.link.store(stub_end(), memory_order_relaxed); }

  // Consumer only. No producer holds the stub: it was never queued, or its link is set.
  void queue_stub() {
    end_stub();
    stub_queued_ = true;
    push({&stub_, &stub_});
  }
  uint64_t stub_end() const { return written(&stub_, end_link(&stub_, kStubTag)); }

  // Producers write back_, the consumer writes the rest: separate cache lines. front_ is atomic
  // because maybe_pending reads it without the lock. Relaxed: the lock orders the consumers.
  alignas(64) Atomic<Message*> back_;
  alignas(64) Atomic<Message*> front_;
  void* const whole_;
  bool stub_queued_ = false;  // and not passed by the consumer; not asked while it is the front
  Message stub_{stub_end()};
};

}  // namespace loft
