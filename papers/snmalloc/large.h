// Blocks of 2^n chunks, and the large objects that they are (2.5). Central: one stack for each n.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snmalloc/chunk_stack.h"

namespace snmalloc {

struct Block {
  uintptr_t base = 0;  // a multiple of the chunk; 0: no memory
  bool zero = false;   // all pages but the first read as zero
};

// The caller sets the kind of the first chunk. The jumps of the others are set.
Block acquire_block(unsigned log, SwapCounts& counts);
void release_block(uintptr_t base, unsigned log, SwapCounts& counts);

// More than the largest medium class, or with an alignment that no other object has.
void* allocate_large(size_t alignment, size_t bytes, SwapCounts& counts);
// `p` may be inside of the object: a large alignment is met there.
void release_large(void* p, SwapCounts& counts);
size_t usable_size_of_large(const void* p);
size_t zero_bytes_of_large(void* p);

}  // namespace snmalloc
