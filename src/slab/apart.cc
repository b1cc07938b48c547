#include "slab/apart.h"

#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/geometry.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span.h"

namespace loft::slab::apart {

namespace {

// Where released slabs lay. A stack for each class, in blocks that are linked.
struct FreeSlabs {
  static constexpr unsigned kBases = 6;
  FreeSlabs* next;
  unsigned count;
  uintptr_t bases[kBases];
};
static_assert(sizeof(FreeSlabs) == kMetadataUnit);

constinit os::Lock lock;  // taken before those of the spans and of the metadata
constinit FreeSlabs* stacks[kSizeClasses]{};

// A guard splits a mapping in two. The system allows a process some 65 000 mappings.
constexpr unsigned kGuardShare = 16;
constexpr unsigned kMostGuards = 8192;
constinit unsigned guards = 0;
constinit uint64_t random_state = 0;

// Addresses are taken for as many slabs at once as have so many granules, if it is more than one,
// and used in an order that is drawn by lot.
constexpr size_t kGranulesAtOnce = 4;

// Under the lock: one of the numbers below `end`.
unsigned draw_below(size_t end) {
  if (random_state == 0) os::random_bytes(&random_state, sizeof random_state);
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<unsigned>((random_state >> 32) % end);
}

// Under the lock. One of a few.
uintptr_t pop(SizeClass c) {
  FreeSlabs* const block = stacks[c];
  if (block == nullptr) return 0;
  uintptr_t& drawn = block->bases[draw_below(block->count)];
  const uintptr_t base = drawn;
  drawn = block->bases[--block->count];
  if (block->count == 0) {
    stacks[c] = block->next;
    metadata::release(block, sizeof(FreeSlabs));
  }
  return base;
}

// Under the lock. False without memory.
bool push(SizeClass c, uintptr_t base) {
  FreeSlabs* block = stacks[c];
  if (block == nullptr || block->count == FreeSlabs::kBases) {
    block = static_cast<FreeSlabs*>(metadata::allocate(sizeof(FreeSlabs)));
    if (block == nullptr) return false;
    *block = {stacks[c], 0, {}};
    stacks[c] = block;
  }
  block->bases[block->count++] = base;
  const size_t granules = geometry(c).granules;
  pagemap.fill(base, granules, Entry(kNoHeap, kNothing, c + 1u));
  return true;
}

// Under the lock: whether a guard lies behind the next slabs.
bool draw_guard(size_t slabs) { return draw_below(kGuardShare) < slabs && guards < kMostGuards; }

// Addresses for `slabs` slabs, of which one counts.
span::Range acquire_several(size_t granules, size_t slabs, bool guarded) {
  const size_t bytes = granules << kGranuleLog;
  span::Range range = span::acquire(slabs * granules + (guarded ? 1 : 0), kGranule, bytes);
  if (range.base == 0) return {};
  if (guarded) os::close(reinterpret_cast<void*>(range.base + slabs * bytes), kGranule, range.zero);
  if (slabs != 1 && !range.zero) {
    // Those that do not count hold no memory.
    void* const all = reinterpret_cast<void*>(range.base);
    if (!os::discard(all, slabs * bytes)) __builtin_memset(all, 0, slabs * bytes);
    range.zero = true;
  }
  return range;
}

}  // namespace

span::Range acquire(SizeClass size_class, size_t granules) {
  const size_t bytes = granules << kGranuleLog;
  size_t slabs = most<size_t>(kGranulesAtOnce / granules, 1);
  bool guarded = false;
  {
    const os::Guard guard(lock);
    const uintptr_t base = pop(size_class);
    if (base != 0) {
      if (span::recount(0, bytes)) return {base, true};
      push(size_class, base);  // its block is there still, or another one is free
      return {};
    }
    guarded = draw_guard(slabs);
    if (guarded) ++guards;
  }
  span::Range range = acquire_several(granules, slabs, guarded);
  if (range.base == 0 && slabs != 1) {
    slabs = 1;
    range = acquire_several(granules, 1, false);
  }
  if (range.base == 0) return {};
  const os::Guard guard(lock);
  const unsigned chosen = draw_below(slabs);
  for (unsigned i = 0; i < slabs; ++i) {
    if (i != chosen) push(size_class, range.base + i * bytes);  // or the addresses are lost
  }
  return {range.base + chosen * bytes, range.zero};
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

SizeClass class_at(Entry entry) {
  if (entry.is_slab()) return class_of_bin(entry.bin());
  if (entry.bin() == kNothing && entry.index() != 0) return entry.index() - 1;
  return kSizeClasses;
}

void prepare_fork() { lock.lock(); }
void finish_fork(bool child) { lock.after_fork(child); }

}  // namespace loft::slab::apart
