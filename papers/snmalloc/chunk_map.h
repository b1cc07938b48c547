// The page map (2.4): one byte for each chunk of the 48 bits of address space, flat. The system
// backs its pages when they are first written.
//
// A thread that frees an object reads what was written before the object was handed out, so relaxed
// loads do: whoever passed the pointer on ordered the two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "snmalloc/size_classes.h"

namespace snmalloc {

inline constexpr unsigned kAddressBits = 48;

//   0          unknown
//   1, 2       a superslab, a medium slab
//   01zn nnnn  Large(n): the first of 2^n chunks; z: all pages but the first read as zero
//   100m mmmm  Jump(m): the object starts at least 2^m chunks earlier
//
// The bit z is not the paper's: it spares calloc the pages that nobody has touched.
class ChunkKind {
 public:
  static constexpr unsigned kLogs = 32;

  constexpr explicit ChunkKind(uint8_t byte) : byte_(byte) {}
  static constexpr ChunkKind unknown() { return ChunkKind(0); }
  static constexpr ChunkKind super() { return ChunkKind(1); }
  static constexpr ChunkKind medium() { return ChunkKind(2); }
  static constexpr ChunkKind large(unsigned log, bool zero) {
    return ChunkKind(static_cast<uint8_t>(0x40u | (zero ? 0x20u : 0u) | log));
  }
  static constexpr ChunkKind jump(unsigned log) {
    return ChunkKind(static_cast<uint8_t>(0x80u | log));
  }

  constexpr bool operator==(const ChunkKind&) const = default;
  constexpr bool is_large() const { return (byte_ & 0xc0u) == 0x40u; }
  constexpr bool is_jump() const { return (byte_ & 0x80u) != 0; }
  constexpr bool is_zero() const { return (byte_ & 0x20u) != 0; }  // of a large one
  constexpr unsigned log() const { return byte_ & (kLogs - 1); }
  constexpr uint8_t byte() const { return byte_; }

 private:
  uint8_t byte_;
};

extern LOFT_HIDDEN uint8_t chunk_map[size_t{1} << (kAddressBits - Config::kChunkLog)];

constexpr uintptr_t chunk_of(uintptr_t address) { return address & ~uintptr_t{kChunk - 1}; }

inline bool is_mapped(uintptr_t address) { return address >> kAddressBits == 0; }
// `address` lies in the 48 bits.
inline ChunkKind kind_of(uintptr_t address) {
  return ChunkKind(__atomic_load_n(&chunk_map[address >> Config::kChunkLog], __ATOMIC_RELAXED));
}
inline void set_kind(uintptr_t address, ChunkKind kind) {
  __atomic_store_n(&chunk_map[address >> Config::kChunkLog], kind.byte(), __ATOMIC_RELAXED);
}

// The jumps behind the first of 2^log chunks.
void set_jumps(uintptr_t base, unsigned log);

// The first chunk of the large object that the address lies in, in steps as many as the logarithm
// of its chunks.
uintptr_t start_of_large(uintptr_t address);

}  // namespace snmalloc
