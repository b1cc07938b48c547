// What a paper's allocator implements, and what surface.cc makes malloc and its kin of. Each engine
// is a library of its own on the lowest floors of loft: the system (os/), and address space
// (space/span.h), from which it takes memory by granules of 64 KiB. Nothing above these floors is
// in use, so an engine's thread-exit hook (os/os.h) and its pagemap entries are its own.
//
// Any thread may call any function at any time, except where a comment says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engine {

// `bytes` is not 0. The result is a multiple of 16; nullptr without memory. errno may change.
void* allocate(size_t bytes);

// `alignment`: a power of two, more than 16.
void* allocate_aligned(size_t alignment, size_t bytes);

// `p`: an object, not nullptr.
void release(void* p);
size_t usable_size(const void* p);

// The bytes from the start of `p` that are known to read as zero; 0 if none are known. `p`: an
// object that was just allocated, not written to since.
size_t zero_bytes(const void* p);

// Around a fork, before and after loft's own floors take and release their locks. In the child,
// the calling thread is the only one.
void prepare_fork();
void finish_fork(bool child);

// What an operation costs another processor, so far. Sums over all threads; each is approximate
// while other threads run. What an engine does not have stays 0.
struct Counts {
  uint64_t frees_remote = 0;   // of objects of another heap
  uint64_t messages = 0;       // objects or batches that entered a queue of another heap
  uint64_t exchanges = 0;      // atomic exchanges that sent them
  uint64_t swaps = 0;          // compare-and-swap instructions that succeeded
  uint64_t swap_retries = 0;   // and that failed
  uint64_t received = 0;       // messages taken from a queue by their heap
  uint64_t forwarded = 0;      // messages that came to a heap that they were not for
  uint64_t locks = 0;          // acquired
  uint64_t lock_waits = 0;     // of these, how many were found held
  uint64_t batches = 0;        // sent by a cache of batches
  uint64_t batch_objects = 0;  // objects in them
  uint64_t evictions = 0;      // batches sent because another slab needed the place
  uint64_t heap_bytes = 0;     // taken from the system, at most

  // Calls that took messages in, by how many: 1, 2, 3, 4, 6, 8, 12 and so on are the least of each
  // entry, two to a power of two. And the longest.
  static constexpr unsigned kLooks = 48;
  uint64_t looks[kLooks] = {};
  uint64_t longest_look = 0;
};
Counts counts();

// The most messages that one call took in, but for one call in a thousand, of as many as there were
// remote frees; to the least of its entry.
uint64_t most_but_for_a_thousandth(const Counts& all);

}  // namespace engine
