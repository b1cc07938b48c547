// A Treiber stack of blocks of chunks, with an incarnation number beside the head against ABA
// (2.5). Blocks are never unmapped, so whoever reads one that another thread has just popped reads
// something, and its swap fails. Any thread may call anything.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace snmalloc {

// Of one allocator: its thread writes them.
struct SwapCounts {
  loft::Counter succeeded;
  loft::Counter failed;
};

// In the first page of a free block, the only one that is never given back.
struct FreeBlock {
  FreeBlock* next;
  bool rest_is_zero;  // all pages behind it read as zero
};

class ChunkStack {
 public:
  void push(FreeBlock* block, SwapCounts& counts);
  FreeBlock* pop(SwapCounts& counts);  // nullptr if it is empty

 private:
  struct alignas(16) Head {
    FreeBlock* first;
    uint64_t incarnation;
  };

  Head load() const;
  bool swap(const Head& from, const Head& to, SwapCounts& counts);

  Head head_{};
};

}  // namespace snmalloc
