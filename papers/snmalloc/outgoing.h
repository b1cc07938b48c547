// The messages for other allocators that have not been sent: 2^k buckets, and the temporal radix
// tree that empties them (2.2). Of one allocator, whose thread alone calls it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "snmalloc/message.h"
#include "snmalloc/parameters.h"

namespace snmalloc {

// The bits of an allocator's address that differ.
inline constexpr unsigned kAllocatorLog = 11;
inline constexpr size_t kAllocatorBytes = size_t{1} << kAllocatorLog;

struct SendCounts {
  loft::Counter messages;
  loft::Counter exchanges;
};

class Outgoing {
 public:
  struct Bucket {
    uintptr_t first;
    uintptr_t last;
    uint64_t count;  // 0: the rest says nothing

    void append(uintptr_t message) {
      if (count++ == 0) {
        first = message;
      } else {
        Message::Queue::set_next(last, message);
      }
      last = message;
    }
  };
  static size_t bytes_of_buckets() { return sizeof(Bucket) << parameters.bucket_bits; }

  // `buckets`: zeroed, as many as the parameters say, for ever.
  Outgoing(const Allocator* self, Bucket* buckets) : self_(self), buckets_(buckets) {}

  // Objects count from when they are freed, messages have their place when they are made.
  void count(size_t bytes) { bytes_ += bytes; }
  bool is_over() const { return bytes_ >= parameters.outbox_bytes; }

  void add(uintptr_t message, const Allocator* owner) { append(owner, 0, message); }

  // Sends everything.
  void flush(SendCounts& counts);

 private:
  unsigned bucket_of(const Allocator* allocator, unsigned shift) const {
    return static_cast<unsigned>(reinterpret_cast<uintptr_t>(allocator) >> kAllocatorLog >> shift) &
           ((1u << parameters.bucket_bits) - 1);
  }
  void append(const Allocator* owner, unsigned shift, uintptr_t message) {
    buckets_[bucket_of(owner, shift)].append(message);
  }
  void redistribute(Bucket home, unsigned shift);

  const Allocator* self_;
  Bucket* buckets_;
  size_t bytes_ = 0;
};

// Sends a list to the owner of its first message.
void send(const Outgoing::Bucket& list, SendCounts& counts);

}  // namespace snmalloc
