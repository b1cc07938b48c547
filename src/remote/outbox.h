// A thread's outbox, and the routing of messages (ISMM'19 2.2, the temporal radix tree).
//
// A heap id has digits of kRadixBits bits. A thread has one bucket for each value of the lowest
// digit. It sends a whole bucket to the owner of its first message. That heap forwards the messages
// of other owners by the next digit. Each hop settles a digit. So a message takes at most
// ceil(16 / kRadixBits) = 3 hops, and a sender needs 64 buckets for 65 534 heaps. Exception:
// messages for a slab taken over meanwhile start anew.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/peek.h"
#include "base/probe.h"
#include "remote/directory.h"
#include "remote/message.h"

namespace loft {

inline constexpr unsigned kRadixBits = 6;
inline constexpr unsigned kBuckets = 1u << kRadixBits;
inline constexpr unsigned kMaxHops = (16 + kRadixBits - 1) / kRadixBits;

// One bucket for each value of a digit, and a bit for each nonempty bucket. All zero: empty.
class Buckets {
 public:
  void append(unsigned bucket, Message* message) {
    if ((used_ >> bucket & 1) == 0) {
      used_ |= uint64_t{1} << bucket;
      chains_[bucket] = Chain{};
    }
    chains_[bucket].append(message);
  }

  // Sends every bucket. Returns their number.
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

  // Calls visit(message, tag) for each message, until it returns false. Reads beside the thread. If
  // that is just beginning a chain, this may read the bucket's former one, whose memory may be
  // gone.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (uint64_t used = peek(used_); used != 0; used &= used - 1) {
      const Message* message = peek(chains_[lowest_bit(used)].first);
      while (lies_in_object(message)) {
        const uint64_t link = meant(message, message->link.load(memory_order_relaxed));
        if (!visit(message, tag_in(link)) || is_end(message, link)) break;
        message = next_in(link);
      }
    }
  }

 private:
  // Then it is mapped: the caller holds the lock of the spans.
  static bool lies_in_object(const Message* message) {
    const bool aligned = reinterpret_cast<uintptr_t>(message) % kAlignment == 0;
    if (!aligned || !pagemap.contains(message)) return false;
    const Entry entry = pagemap.of(message);
    return entry.is_slab() || entry.bin() == kMedium;
  }

  uint64_t used_;
  Chain chains_[kBuckets];  // valid where used_ has a bit
};

// The sender's side. Owned by one thread. All zero: empty.
class Outbox {
 public:
  void add(HeapId owner, Message* message) { buckets_.append(owner % kBuckets, message); }

  // Adds `message`, which holds `count` records and has space for `capacity`, and leaves it open.
  // Later batches for the same owner join it instead of using a carrier of their own. Each bucket
  // has at most one open message. `seal`: that of the records so far.
  void add_open(HeapId owner, Message* message, unsigned count, unsigned capacity, uint64_t seal) {
    add(owner, message);
    write_end(message, records_tag(count));
    if (messages::keyed()) {
      seal_open(owner % kBuckets);  // the bucket's former one
      seals_[owner % kBuckets] = seal;
    }
    open_[owner % kBuckets] =
        Open{message, owner, static_cast<uint16_t>(count), static_cast<uint16_t>(capacity)};
  }

  // The seal, so far, of the open message for `owner`. It lies here, because a program may write to
  // the message.
  uint64_t* seal_of(HeapId owner) { return &seals_[owner % kBuckets]; }

  // Whether the open message for `owner` already holds an object of this record.
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

  // Reserves space for `needed` more records in the open message for `owner`; the caller writes
  // them. nullptr if there is no such space, or the message's capacity is below `least_capacity`.
  Record* reserve(HeapId owner, unsigned needed, unsigned least_capacity = 0) {
    Open& open = open_[owner % kBuckets];
    if (open.owner != owner || open.capacity < least_capacity ||
        unsigned{open.capacity} - open.count < needed) {
      return nullptr;
    }
    Record* space = open.message->records() + open.count;
    const Tag before = records_tag(open.count);
    open.count = static_cast<uint16_t>(open.count + needed);
    // The message may already have a successor: only the tag changes.
    const uint64_t link = open.message->link.load(memory_order_relaxed);
    open.message->link.store(retagged(open.message, link, before, records_tag(open.count)),
                             memory_order_relaxed);
    return space;
  }

  // Counts bytes just added. True once `limit` bytes wait.
  bool add_bytes(size_t bytes, size_t limit) { return (bytes_ += bytes) >= limit; }

  // Sends every bucket, and leaves no message open. Returns the number of buckets.
  unsigned post() {
    LOFT_PROBE1(loft, post, bytes_);
    bytes_ = 0;
    for (uint64_t used = buckets_.used(); used != 0; used &= used - 1) {
      if (messages::keyed()) seal_open(lowest_bit(used));
      open_[lowest_bit(used)].owner = kNoHeap;
    }
    return buckets_.deliver_all();
  }

  bool empty() const { return buckets_.used() == 0; }

  template <class Visit>
  void for_each(Visit&& visit) const {
    buckets_.for_each(visit);
  }

 private:
  // Seals a bucket's open message, if there is one.
  void seal_open(unsigned bucket) {
    const Open& open = open_[bucket];
    if (open.owner != kNoHeap) {
      messages::write_seal(open.message, records_tag(open.count), seals_[bucket]);
    }
  }

  struct Open {  // without an owner: none
    Message* message;
    HeapId owner;
    uint16_t count;
    uint16_t capacity;
  };

  Buckets buckets_;
  Open open_[kBuckets];
  size_t bytes_;
  uint64_t seals_[kBuckets];  // of open messages, if messages are keyed
};

// The receiver's side, on the stack of one drain of heap `self`: collects messages for other heaps.
// That stack may be small, so it holds a few buckets at a time. One more bucket sends these first.
class Forwarder {
 public:
  explicit Forwarder(HeapId self) : self_(self) {}

  // The bucket is the lowest digit in which the two ids differ, with its value in `owner`. So the
  // heap that gets the bucket shares that digit with `owner`.
  void add(HeapId owner, Message* message) {
    const unsigned digit = lowest_bit(static_cast<uint64_t>(owner ^ self_)) / kRadixBits;
    chain_of(digit * kBuckets + (owner >> digit * kRadixBits & (kBuckets - 1))).append(message);
    ++messages_;
  }

  // Sends every bucket. Returns the number sent so far.
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
  uint8_t buckets_[kOpen];  // the first open_ are set; their chains are not empty
  Chain chains_[kOpen];
};
static_assert(kMaxHops * kBuckets <= 256);

}  // namespace loft
