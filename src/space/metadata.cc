#include "space/metadata.h"

#include <new>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"
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
    return block;
  }
  return nullptr;
}

constexpr size_t units_of(size_t bytes) { return round_up(bytes, kMetadataUnit) / kMetadataUnit; }

// Under the lock. nullptr without memory.
void* take(size_t units) {
  used.add(units * kMetadataUnit);
  if (FreeBlock* const block = free_blocks[units]; block != nullptr) {
    free_blocks[units] = block->next;
    return block;
  }
  const uintptr_t at = end() == 0 ? window.metadata.base + kMetadataUnit : end();
  if (window.metadata.grow(at + units * kMetadataUnit)) {
    frontier.store(at + units * kMetadataUnit, memory_order_relaxed);
    return reinterpret_cast<void*>(at);
  }
  void* const block = split_larger(units);
  if (block == nullptr) used.add(-(units * kMetadataUnit));
  return block;
}

void put(void* block, size_t units) {
  free_blocks[units] = new (block) FreeBlock{free_blocks[units]};
  used.add(-(units * kMetadataUnit));
}

}  // namespace

void* allocate_as_it_is(size_t bytes) {
  const os::Guard guard(lock);
  return take(units_of(bytes));
}

bool allocate_all(size_t bytes, void** blocks, unsigned count) {
  const size_t units = units_of(bytes);
  uintptr_t new_from = 0;
  {
    const os::Guard guard(lock);
    new_from = end();
    for (unsigned i = 0; i < count; ++i) {
      blocks[i] = take(units);
      if (LOFT_LIKELY(blocks[i] != nullptr)) continue;
      while (i != 0) put(blocks[--i], units);
      return false;
    }
  }
  // Without the lock: the lines of a block that was used may be another processor's.
  for (unsigned i = 0; i < count; ++i) {
    const bool is_new = new_from == 0 || reinterpret_cast<uintptr_t>(blocks[i]) >= new_from;
    if (!is_new) __builtin_memset(blocks[i], 0, units * kMetadataUnit);
  }
  return true;
}

void* allocate(size_t bytes) {
  void* block = nullptr;
  return allocate_all(bytes, &block, 1) ? block : nullptr;
}

void release_all(const MetadataBlock* blocks, unsigned count) {
  const os::Guard guard(lock);
  for (unsigned i = 0; i < count; ++i) put(blocks[i].at, units_of(blocks[i].bytes));
}

void release(void* block, size_t bytes) {
  const MetadataBlock one = {block, bytes};
  release_all(&one, 1);
}

void* allocate_apart(size_t bytes) {
  constexpr size_t kPair = 2 * kCacheLine;
  static_assert(kPair % kMetadataUnit == 0);
  const auto memory =
      reinterpret_cast<uintptr_t>(allocate(round_up(bytes, kPair) + kPair - kMetadataUnit));
  return reinterpret_cast<void*>(round_up(memory, kPair));
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
size_t locks() { return lock.acquisitions(); }
size_t waits() { return lock.waits(); }

void prepare_fork() { lock.lock(); }
void finish_fork(bool child) { lock.after_fork(child); }

}  // namespace loft::metadata
