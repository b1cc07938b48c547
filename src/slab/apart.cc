#include "slab/apart.h"

#include "files/random.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/metadata.h"
#include "space/span.h"

namespace loft::slab::apart {

namespace {

// Where released slabs lay. A stack for each class, in blocks that are linked.
struct Block {
  static constexpr unsigned kBases = 6;
  Block* next;
  unsigned count;
  uintptr_t bases[kBases];
};
static_assert(sizeof(Block) == kMetadataUnit);

constinit os::Lock lock;  // taken before those of the spans and of the metadata
constinit Block* stacks[kSizeClasses];

// A guard splits a mapping in two. The system allows a process some 65 000 mappings.
constexpr unsigned kGuardShare = 16;
constexpr unsigned kMostGuards = 8192;
constinit unsigned guards = 0;
constinit uint64_t random_state = 0;

// Under the lock.
uintptr_t pop(SizeClass c) {
  Block* const block = stacks[c];
  if (block == nullptr) return 0;
  const uintptr_t base = block->bases[--block->count];
  if (block->count == 0) {
    stacks[c] = block->next;
    metadata::release(block, sizeof(Block));
  }
  return base;
}

// Under the lock. False without memory.
bool push(SizeClass c, uintptr_t base) {
  Block* block = stacks[c];
  if (block == nullptr || block->count == Block::kBases) {
    block = static_cast<Block*>(metadata::allocate(sizeof(Block)));
    if (block == nullptr) return false;
    *block = {stacks[c], 0, {}};
    stacks[c] = block;
  }
  block->bases[block->count++] = base;
  return true;
}

// Under the lock: whether the next slab gets a guard.
bool draw() {
  if (random_state == 0) files::random_bytes(&random_state, sizeof random_state);
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 32) % kGuardShare == 0 && guards < kMostGuards;
}

}  // namespace

span::Range acquire(SizeClass size_class, size_t granules) {
  const size_t bytes = granules << kGranuleLog;
  bool guarded = false;
  {
    const os::Guard guard(lock);
    const uintptr_t base = pop(size_class);
    if (base != 0) {
      if (span::recount(0, bytes)) return {base, true};
      push(size_class, base);  // its block is there still, or another one is free
      return {};
    }
    guarded = draw();
    if (guarded) ++guards;
  }
  const span::Range range =
      guarded ? span::acquire(granules + 1, kGranule, bytes) : span::acquire(granules, kGranule);
  if (guarded && range.base != 0) {
    os::renew(reinterpret_cast<void*>(range.base + bytes), kGranule, true);
  }
  return range;
}

void release(SizeClass size_class, uintptr_t base, size_t granules, bool dirty) {
  const size_t bytes = granules << kGranuleLog;
  // Pages that stay, as locked ones do, are cleared for any other use.
  if (dirty && !os::discard(reinterpret_cast<void*>(base), bytes)) {
    __builtin_memset(reinterpret_cast<void*>(base), 0, bytes);
  }
  span::recount(bytes, 0);
  const os::Guard guard(lock);
  push(size_class, base);  // without memory, the addresses are lost
}

void prepare_fork() { lock.lock(); }
void finish_fork(bool child) { lock.after_fork(child); }

}  // namespace loft::slab::apart
