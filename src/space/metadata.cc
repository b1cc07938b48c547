#include "space/metadata.h"

#include <new>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/size_class.h"
#include "os/lock.h"

namespace loft::metadata {

namespace {

struct FreeBlock {
  FreeBlock* next;
};

constinit os::Lock lock;
constinit FreeBlock* free_blocks[kMetadataMaxBlock / kMetadataUnit + 1];
// Unit 0 is never handed out: index 0 means none. Relaxed: written under the lock, read for
// statistics.
constinit Atomic<uintptr_t> frontier{0};
constinit Counter used;

// Used when address space has run out. Splits the smallest larger free block, and lists the rest
// under its own size.
void* split_larger(size_t units) {
  for (size_t larger = units + 1; larger <= kMetadataMaxBlock / kMetadataUnit; ++larger) {
    FreeBlock* block = free_blocks[larger];
    if (block == nullptr) continue;
    free_blocks[larger] = block->next;
    void* rest = reinterpret_cast<char*>(block) + units * kMetadataUnit;
    free_blocks[larger - units] = new (rest) FreeBlock{free_blocks[larger - units]};
    __builtin_memset(static_cast<void*>(block), 0, units * kMetadataUnit);
    return block;
  }
  return nullptr;
}

}  // namespace

void* allocate(size_t bytes) {
  const size_t units = round_up(bytes, kMetadataUnit) / kMetadataUnit;
  const os::Guard guard(lock);
  void* block = free_blocks[units];
  if (block != nullptr) {
    free_blocks[units] = free_blocks[units]->next;
    __builtin_memset(block, 0, units * kMetadataUnit);
  } else {
    uintptr_t at = end();
    if (at == 0) at = window.metadata.base + kMetadataUnit;
    if (window.metadata.grow(at + units * kMetadataUnit)) {
      block = reinterpret_cast<void*>(at);
      frontier.store(at + units * kMetadataUnit, memory_order_relaxed);
    } else {
      block = split_larger(units);
      if (block == nullptr) return nullptr;
    }
  }
  used.add(units * kMetadataUnit);
  return block;
}

void* allocate_apart(size_t bytes) {
  constexpr size_t kPair = 2 * kCacheLine;
  static_assert(kPair % kMetadataUnit == 0);
  const auto memory =
      reinterpret_cast<uintptr_t>(allocate(round_up(bytes, kPair) + kPair - kMetadataUnit));
  return reinterpret_cast<void*>(round_up(memory, kPair));
}

void release(void* block, size_t bytes) {
  const size_t units = round_up(bytes, kMetadataUnit) / kMetadataUnit;
  const os::Guard guard(lock);
  free_blocks[units] = new (block) FreeBlock{free_blocks[units]};
  used.add(-(units * kMetadataUnit));
}

bool keep_room_for(size_t heap_bytes) {
  constexpr size_t kThreads = 4 * kGranule;
  const os::Guard guard(lock);
  const size_t bytes = heap_bytes / kMetadataShare + kThreads;
  return window.metadata.grow(window.metadata.base +
                              least(bytes, window.metadata.end - window.metadata.base));
}

size_t used_bytes() { return used.get(); }
uintptr_t end() { return frontier.load(memory_order_relaxed); }
size_t touched_bytes() { return end() == 0 ? 0 : end() - window.metadata.base; }
unsigned long locks() { return lock.acquisitions(); }
unsigned long waits() { return lock.waits(); }

void prepare_fork() { lock.lock(); }
void finish_fork(bool child) { lock.after_fork(child); }

}  // namespace loft::metadata
