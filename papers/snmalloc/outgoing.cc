#include "snmalloc/outgoing.h"

#include "base/bits.h"
#include "snmalloc/allocator.h"

namespace snmalloc {

namespace {

void put(RemoteQueue& queue, const Outgoing::Bucket& list, SendCounts& counts) {
  counts.messages.add(list.count);
  counts.exchanges.add(1);
  queue.put(list.first, list.last, list.count);
}

// An exchange for each class that the list has. To sort it here, where its messages were written,
// costs less than to keep buckets for each class, which every flush would visit.
void send_by_class(Allocator* owner, const Outgoing::Bucket& list, SendCounts& counts) {
  Outgoing::Bucket parts[kQueues];
  uint64_t used = 0;
  uintptr_t message = list.first;
  for (uint64_t left = list.count; left != 0; --left) {
    // Before the message gets another place.
    const uintptr_t next = left == 1 ? 0 : Message::Queue::next(message);
    const unsigned queue = queue_of(message);
    if ((used >> queue & 1) == 0) parts[queue].count = 0;
    used |= uint64_t{1} << queue;
    parts[queue].append(message);
    message = next;
  }
  for (; used != 0; used &= used - 1) {
    const unsigned queue = loft::lowest_bit(used);
    put(owner->incoming(queue), parts[queue], counts);
  }
}

}  // namespace

void send(const Outgoing::Bucket& list, SendCounts& counts) {
  Allocator* const owner = Message::owner(list.first);
  if (parameters.by_class) return send_by_class(owner, list, counts);
  put(owner->incoming(), list, counts);
}

// The buckets but the home one are sent, each to the owner of its first message, which forwards
// what is not its own. What is in the home bucket shares the present k bits with this allocator's
// address, and is spread by the next k. No message is for this allocator, so after all bits the
// home bucket is empty.
void Outgoing::flush(SendCounts& counts) {
  for (unsigned shift = 0;; shift += parameters.bucket_bits) {
    Bucket& home = buckets_[bucket_of(self_, shift)];
    for (unsigned i = 0; i < 1u << parameters.bucket_bits; ++i) {
      Bucket& bucket = buckets_[i];
      if (&bucket == &home || bucket.count == 0) continue;
      send(bucket, counts);
      bucket.count = 0;
    }
    if (home.count == 0) break;
    const Bucket spread = home;
    home.count = 0;
    redistribute(spread, shift + parameters.bucket_bits);
  }
  bytes_ = 0;
}

void Outgoing::redistribute(Bucket home, unsigned shift) {
  uintptr_t message = home.first;
  for (uint64_t left = home.count; left != 0; --left) {
    // Before the message gets another place.
    const uintptr_t next = left == 1 ? 0 : Message::Queue::next(message);
    append(Message::owner(message), shift, message);
    message = next;
  }
}

}  // namespace snmalloc
