#include "snmalloc/large.h"

#include <bit>

#include "base/bits.h"
#include "os/os.h"
#include "snmalloc/chunk_map.h"
#include "snmalloc/parameters.h"
#include "space/span.h"

namespace snmalloc {

namespace {

constexpr unsigned kLogs = kAddressBits - Config::kChunkLog;  // of blocks below the address space

constinit ChunkStack stacks[kLogs];

constexpr size_t size_of_block(unsigned log) { return kChunk << log; }

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

Block fresh_block(unsigned log) {
  if (!loft::span::initialise()) return {};
  const loft::span::Range range =
      loft::span::acquire(size_of_block(log) >> loft::kGranuleLog, kChunk);
  // Beyond 48 bits there is no map. No system gives such addresses to who does not ask for them.
  if (range.base == 0 || !is_mapped(range.base + size_of_block(log))) return {};
  set_jumps(range.base, log);
  return {range.base, range.zero};
}

}  // namespace

Block acquire_block(unsigned log, SwapCounts& counts) {
  FreeBlock* const block = stacks[log].pop(counts);
  if (block == nullptr) return fresh_block(log);
  return {address(block), block->rest_is_zero};
}

void release_block(uintptr_t base, unsigned log, SwapCounts& counts) {
  const size_t page = loft::os::page_size();
  auto* const block = reinterpret_cast<FreeBlock*>(base);
  block->rest_is_zero =
      parameters.decommits &&
      loft::os::discard(reinterpret_cast<void*>(base + page), size_of_block(log) - page);
  stacks[log].push(block, counts);
}

// An alignment above the chunk's costs as much again, of addresses alone: pages are the system's
// until they are used.
void* allocate_large(size_t alignment, size_t bytes, SwapCounts& counts) {
  const size_t beyond = alignment > kChunk ? alignment : 0;
  constexpr size_t kMost = size_t{1} << (kAddressBits - 2);
  if (bytes > kMost || beyond > kMost) return nullptr;
  const size_t chunks = loft::round_up(bytes + beyond, kChunk) >> Config::kChunkLog;
  const auto log = static_cast<unsigned>(std::bit_width(chunks - 1));
  if (log >= kLogs) return nullptr;
  const Block block = acquire_block(log, counts);
  if (block.base == 0) return nullptr;
  set_kind(block.base, ChunkKind::large(log, block.zero));
  return reinterpret_cast<void*>(loft::round_up(block.base, loft::most(alignment, kChunk)));
}

void release_large(void* p, SwapCounts& counts) {
  const uintptr_t base = start_of_large(address(p));
  release_block(base, kind_of(base).log(), counts);
}

size_t usable_size_of_large(const void* p) {
  const uintptr_t base = start_of_large(address(p));
  return size_of_block(kind_of(base).log()) - (address(p) - base);
}

size_t zero_bytes_of_large(void* p) {
  const uintptr_t base = start_of_large(address(p));
  if (!kind_of(base).is_zero()) return 0;
  // The first page was a stack's entry, or the object's before.
  if (address(p) == base) __builtin_memset(p, 0, loft::os::page_size());
  return usable_size_of_large(p);
}

}  // namespace snmalloc
