// Memory for loft's own structures, outside the window. Blocks are multiples of a cache line, so
// that structures of different owners never share one; freed blocks are kept by size and never
// given to the window, so that a stale reference still points at metadata.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/window.h"

namespace loft {

inline constexpr size_t kMetadataMaxBlock = 64 * 1024;

namespace metadata {

// Zeroed, kMetadataUnit-aligned, at most kMetadataMaxBlock bytes; nullptr without memory. Any
// thread.
void* allocate(size_t bytes);
void release(void* block, size_t bytes);

// The same for what stays for ever, and shares no pair of cache lines with other metadata:
// processors fetch lines in pairs, and what lies beside the block of a thread or a processor is
// mostly a slab's, to which another one writes. For objects of some sizes malloc-test had two
// thirds of the throughput by that.
void* allocate_apart(size_t bytes);

// Makes sure that there is address space for what describes a window of so many bytes, in whichever
// classes it is cut one after another (blocks of different sizes do not join), and for a few more
// threads. The window grows only with it: when the process may map no more, what it has can still
// be used. False without address space.
bool keep_room_for(size_t heap_bytes);

size_t used_bytes();
uintptr_t end();         // of what was ever handed out; 0 if nothing was
size_t touched_bytes();  // up to there: freed blocks keep their pages
unsigned long locks();
unsigned long waits();  // of these, that found the lock held
void prepare_fork();
void finish_fork(bool child);

inline uint32_t index_of(const void* block) {
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(block) - window.metadata.base) /
                               kMetadataUnit);
}
// Whether an index from doubtful memory may be followed. Another thread may be growing the region:
// what it adds is not behind an index that we hold.
inline bool contains(uint32_t index) {
  const uintptr_t committed = __atomic_load_n(&window.metadata.committed, __ATOMIC_RELAXED);
  return index != 0 && uint64_t{index} * kMetadataUnit < committed - window.metadata.base;
}
template <class T>
T* at_index(uint32_t index) {
  return reinterpret_cast<T*>(window.metadata.base + uint64_t{index} * kMetadataUnit);
}

}  // namespace metadata
}  // namespace loft
