#include "snmalloc/outgoing.h"

#include "snmalloc/allocator.h"

namespace snmalloc {

void send(const Outgoing::Bucket& list, SendCounts& counts) {
  counts.messages.add(list.count);
  counts.exchanges.add(1);
  Message::owner(list.first)->incoming().put(list.first, list.last, list.count);
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
