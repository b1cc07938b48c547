#include "snmalloc/chunk_map.h"

#include "base/bits.h"

namespace snmalloc {

uint8_t chunk_map[size_t{1} << (kAddressBits - Config::kChunkLog)];

void set_jumps(uintptr_t base, unsigned log) {
  for (size_t chunk = 1; chunk < size_t{1} << log; ++chunk) {
    set_kind(base + chunk * kChunk, ChunkKind::jump(loft::highest_bit(chunk)));
  }
}

uintptr_t start_of_large(uintptr_t address) {
  uintptr_t chunk = chunk_of(address);
  for (ChunkKind kind = kind_of(chunk); kind.is_jump(); kind = kind_of(chunk)) {
    chunk -= kChunk << kind.log();
  }
  return chunk;
}

}  // namespace snmalloc
