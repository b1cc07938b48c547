// What begins a superslab or a medium slab: what other threads read of it, in a cache line of its
// own (2.7). It is written while no object of the chunk is in use.
#pragma once

#include <cstdint>

#include "snmalloc/chunk_map.h"

namespace snmalloc {

class Allocator;

struct alignas(64) ChunkHeader {
  Allocator* owner;
  ChunkKind kind;  // spares a look into the map
};
static_assert(sizeof(ChunkHeader) == 64);

inline ChunkHeader* header_of(uintptr_t object) {
  return reinterpret_cast<ChunkHeader*>(chunk_of(object));
}

}  // namespace snmalloc
