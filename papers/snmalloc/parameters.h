// What is chosen when a program starts. README.md lists the variables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

namespace snmalloc {

enum class Evict : unsigned { kLargest, kLru, kFirst, kRandom };
enum class Hash : unsigned { kMultiply, kShift };

struct Parameters {
  uint64_t outbox_bytes;  // 2.2's threshold; 0: each free is sent at once
  unsigned bucket_bits;   // k
  bool decommits;         // blocks are given back to the system but for their first page (2.5)

  // BatchIt.
  bool batches;
  unsigned ways;
  unsigned set_bits;
  Evict evict;
  Hash hash;
  uint64_t budget;    // messages taken in at each look
  bool adapts;        // in place of it, as many as the call's path bears (Allocator::look_for)
  bool by_class;      // messages arrive in a queue for each size class
  uint64_t pressure;  // a sender yields to a queue that is longer; 0: never
};

// Written before the first allocator exists, under the pool's lock, which orders all that follow.
extern LOFT_HIDDEN Parameters parameters;
void read_parameters();

}  // namespace snmalloc
