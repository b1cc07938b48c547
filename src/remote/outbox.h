// The outbox of a thread, and how a message finds its way (ISMM'19 2.2, the temporal radix tree).
//
// A thread keeps one bucket for each value of the lowest kRadixBits bits of a heap id and sends a
// whole bucket to the owner of its first message. Whatever is not that heap's own, it forwards: by
// the next kRadixBits bits. Each hop settles kRadixBits more bits of the id, so a message travels
// at most ceil(16 / kRadixBits) = 3 hops, and a sender needs 64 buckets for 65 534 heaps. (But for
// the messages of a slab that changes hands meanwhile, which begin anew.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "remote/directory.h"
#include "remote/message.h"

namespace loft {

inline constexpr unsigned kRadixBits = 6;
inline constexpr unsigned kBuckets = 1u << kRadixBits;
inline constexpr unsigned kMaxHops = (16 + kRadixBits - 1) / kRadixBits;

// One bucket for each value of some digit, and a bit for each that is not empty. All zero is empty.
class Buckets {
 public:
  void append(unsigned bucket, Message* message) {
    if ((used_ >> bucket & 1) == 0) {
      used_ |= uint64_t{1} << bucket;
      chains_[bucket] = Chain{};
    }
    chains_[bucket].append(message);
  }

  // Sends every bucket on its way; returns how many there were.
  unsigned deliver_all() {
    unsigned sent = 0;
    while (used_ != 0) {
      deliver(chains_[lowest_bit(used_)]);
      used_ &= used_ - 1;
      ++sent;
    }
    return sent;
  }

  uint64_t used() const { return used_; }

 private:
  uint64_t used_;
  Chain chains_[kBuckets];  // meaningful where used_ says so
};

// Sender's side. Owned by one thread. All zero is empty.
class Outbox {
 public:
  void add(HeapId owner, Message* message) { buckets_.append(owner % kBuckets, message); }

  // A message with records and room for more of them, for each bucket: later batches for the same
  // owner join it instead of sending a carrier of their own.
  //
  // Adds `message`, which has room for `capacity` records in all.
  void add_open(HeapId owner, Message* message, unsigned count, unsigned capacity) {
    add(owner, message);
    message->link.store(end_link(message, records_tag(count)), memory_order_relaxed);
    open_[owner % kBuckets] =
        Open{message, owner, static_cast<uint16_t>(count), static_cast<uint16_t>(capacity)};
  }

  // Whether the open message for `owner` brings home an object of this record.
  bool holds(HeapId owner, const Record& record) const {
    const Open& open = open_[owner % kBuckets];
    if (open.owner != owner) return false;
    for (const Record* held = open.message->records(); held != open.message->records() + open.count;
         ++held) {
      if (held->slab == record.slab && held->word == record.word &&
          (held->freed & record.freed) != 0) {
        return true;
      }
    }
    return false;
  }

  // Where `needed` more records for `owner` may be written, in a message for `least_capacity` in
  // all; nullptr if there is no such room.
  Record* room_for(HeapId owner, unsigned needed, unsigned least_capacity = 0) {
    Open& open = open_[owner % kBuckets];
    if (open.owner != owner || open.capacity < least_capacity ||
        unsigned{open.capacity} - open.count < needed) {
      return nullptr;
    }
    Record* room = open.message->records() + open.count;
    open.count = static_cast<uint16_t>(open.count + needed);
    // The message may be linked to a next one already: only its tag changes.
    const uint64_t link = open.message->link.load(memory_order_relaxed);
    open.message->link.store((link & kLinkPointerMask) | tag_bits(records_tag(open.count)),
                             memory_order_relaxed);
    return room;
  }

  // Accounts the objects that were just added; true once `limit` bytes wait.
  bool add_bytes(size_t bytes, size_t limit) { return (bytes_ += bytes) >= limit; }

  unsigned post() {
    bytes_ = 0;
    for (uint64_t used = buckets_.used(); used != 0; used &= used - 1) {
      open_[lowest_bit(used)].owner = kNoHeap;
    }
    return buckets_.deliver_all();
  }

  bool empty() const { return buckets_.used() == 0; }

 private:
  struct Open {  // no owner: none
    Message* message;
    HeapId owner;
    uint16_t count;
    uint16_t capacity;
  };

  Buckets buckets_;
  Open open_[kBuckets];
  size_t bytes_;
};

// Receiver's side, on the stack of one drain of heap `self`: collects what is for others. A few
// buckets at a time, as that stack may be a small one; who begins one more sends these first.
class Forwarder {
 public:
  explicit Forwarder(HeapId self) : self_(self) {}

  // The first digit in which the ids differ chooses the bucket; the next hop shares it with
  // `owner`.
  void add(HeapId owner, Message* message) {
    const unsigned digit = lowest_bit(static_cast<uint64_t>(owner ^ self_)) / kRadixBits;
    chain_of(digit * kBuckets + (owner >> digit * kRadixBits & (kBuckets - 1))).append(message);
    ++messages_;
  }

  // Sends every bucket on its way; returns how many there were so far.
  unsigned post() {
    for (unsigned i = 0; i < open_; ++i) deliver(chains_[i]);
    sent_ += open_;
    open_ = 0;
    return sent_;
  }

  unsigned messages() const { return messages_; }

 private:
  static constexpr unsigned kOpen = 8;

  Chain& chain_of(unsigned bucket) {
    for (unsigned i = 0; i < open_; ++i) {
      if (buckets_[i] == bucket) return chains_[i];
    }
    if (open_ == kOpen) post();
    buckets_[open_] = static_cast<uint8_t>(bucket);
    chains_[open_] = Chain{};
    return chains_[open_++];
  }

  HeapId self_;
  unsigned messages_ = 0;
  unsigned sent_ = 0;
  unsigned open_ = 0;
  uint8_t buckets_[kOpen];  // of `open_` of them, whose chains are not empty
  Chain chains_[kOpen];
};
static_assert(kMaxHops * kBuckets <= 256);

}  // namespace loft
