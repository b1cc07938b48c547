// What is chosen when a library of this folder is built: the length of a chunk, and what stands for
// the free objects on their way to their owner.
#pragma once

#include <cstdint>

namespace snmalloc {

// 2.1 and its footnote 1: where small ends and medium begins.
template <unsigned mebibytes>
struct Chunks {
  static_assert(mebibytes == 1 || mebibytes == 16, "a chunk has 1 or 16 MiB");
  static constexpr unsigned kChunkLog = mebibytes == 1 ? 20 : 24;
  static constexpr unsigned kSmallLog = mebibytes == 1 ? 14 : 16;
};

// ISMM'19: each object is a message of its own.
struct Messages {
  static constexpr bool kBatches = false;
  static constexpr bool kChecks = false;
  static constexpr uint64_t kOutboxBytes = uint64_t{1} << 20;  // 3.2: it gave the best results
  static constexpr unsigned kBucketBits = 6;                   // 2.2
};
// BatchIt, ISMM'24: the objects of one slab are a message. The outbox is that of the snmalloc which
// it changed (3.2: commit b8e9e99c), whose constants are REMOTE_CACHE and REMOTE_SLOT_BITS. What is
// collected counts within it, so it bounds the batches.
struct Batches {
  static constexpr bool kBatches = true;
  static constexpr bool kChecks = false;
  static constexpr uint64_t kOutboxBytes = uint64_t{1} << 14;
  static constexpr unsigned kBucketBits = 8;
};
// The same with the detection of corrupted links (BatchIt 3.2, third and fourth).
struct CheckedBatches : Batches {
  static constexpr bool kChecks = true;
};

struct Config : Chunks<SNMALLOC_CHUNK_MIB>, SNMALLOC_VARIANT {};

}  // namespace snmalloc
