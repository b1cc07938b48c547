// Memory for loft's own structures, outside the window. Blocks are multiples of a cache line, so
// that structures of different owners never share one. Freed blocks are kept by size and never
// become part of the window, so a stale reference still points at metadata.
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

// The same with whatever lay there before.
void* allocate_as_it_is(size_t bytes);

// The same for up to kMostAtOnce blocks, under one hold of the lock: all blocks or, without memory,
// none.
inline constexpr unsigned kMostAtOnce = 8;
bool allocate_all(size_t bytes, void** blocks, unsigned count);
struct MetadataBlock {
  void* at;
  size_t bytes;
};
void release_all(const MetadataBlock* blocks, unsigned count);

// The same for structures that are never freed. They share no pair of cache lines with other
// metadata, because processors fetch lines in pairs: the neighbour of a thread's or processor's
// block is mostly a slab, which another thread writes. With shared pairs, malloc-test had two
// thirds of the throughput for some object sizes.
void* allocate_apart(size_t bytes);

// Reserves address space for the metadata of a window of `heap_bytes` and of a few more threads. It
// suffices even if the window is cut into one class after another (blocks of different sizes do not
// join). The window grows only with it: if the process may map no more, the present window stays
// usable. False without address space.
bool keep_room_for(size_t heap_bytes);

size_t used_bytes();
uintptr_t end();         // of all blocks ever handed out; 0 if there were none
size_t touched_bytes();  // up to end(): freed blocks keep their pages
size_t locks();
size_t waits();  // of these, how many found the lock held
void prepare_fork();
void finish_fork(bool child);

inline uint32_t index_of(const void* block) {
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(block) - window.metadata.base) /
                               kMetadataUnit);
}
// Whether an index from doubtful memory may be followed. Relaxed: another thread may be growing the
// region, but no index that the caller holds points to the added part.
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
