// a3alloc (Brindus and Pham, 2019), and Hoard, its parent, as its report describes it: heaps of
// processors under spinlocks, superblocks with bitmaps in lists by fullness. README.md says which
// section each part follows, and what the report leaves open.
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/macros.h"
#include "engine/engine.h"
#include "engine/settings.h"
#include "engine/spin_lock.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/span.h"

namespace engine {

namespace {

constexpr size_t kPage = 4096;  // a superblock (2.2)
constexpr unsigned kPageLog = 12;
constexpr unsigned kClasses = 9;  // 8 << c bytes, to half a page
constexpr unsigned kGroups = 5;   // quarters, and the totally full (2.4)
constexpr unsigned kFull = 4;
constexpr unsigned kMostHeaps = 256;  // the owner is a byte (2.2)

// 2.2, field for field.
struct Superblock {
  uint32_t in_use;     // bytes, without the header
  uint8_t group;       // its list in the heap
  uint8_t size_class;  // or kHuge
  uint8_t owner;       // the heap; 0 is the global one
  uint8_t unused;
  uint64_t bitmap[8];  // set: in use
  Superblock* next;
  Superblock* prev;
  uint64_t pages;
};
static_assert(sizeof(Superblock) % 16 == 0);
constexpr uint8_t kHuge = kClasses;

constexpr size_t size_of(unsigned size_class) { return size_t{8} << size_class; }
constexpr unsigned blocks_of(unsigned size_class) {
  return static_cast<unsigned>((kPage - sizeof(Superblock)) >> (3 + size_class));
}
// malloc aligns to 16 bytes, so the class of 8 has no user.
unsigned class_of(size_t bytes) { return bytes <= 16 ? 1 : loft::highest_bit(bytes - 1) + 1u - 3; }

// 2.4: which quarter is in use, in blocks: a superblock of one block is empty or full.
unsigned group_of(const Superblock& superblock) {
  const size_t size = size_of(superblock.size_class);
  const size_t all = blocks_of(superblock.size_class) * size;
  if (superblock.in_use == all) return kFull;
  return static_cast<unsigned>(4 * superblock.in_use / all);
}

struct alignas(64) Heap {
  SpinLock lock;
  size_t in_use;     // u_i in Hoard
  size_t allocated;  // a_i
  Superblock* bins[kClasses][kGroups];

  void insert(Superblock* superblock) {
    Superblock*& first = bins[superblock->size_class][superblock->group];
    superblock->prev = nullptr;
    superblock->next = first;
    if (first != nullptr) first->prev = superblock;
    first = superblock;
  }
  void remove(Superblock* superblock) {
    if (superblock->next != nullptr) superblock->next->prev = superblock->prev;
    if (superblock->prev != nullptr) {
      superblock->prev->next = superblock->next;
    } else {
      bins[superblock->size_class][superblock->group] = superblock->next;
    }
  }
};

// heaps[0] is the global one; those of processors follow.
constinit Heap heaps[kMostHeaps]{};
constinit loft::Atomic<unsigned> processors{0};

// The pages: those globally free (2.2.2), and the rest of what the system gave last.
constinit SpinLock pages_lock;
constinit Superblock* free_pages = nullptr;
constinit uintptr_t frontier = 0;
constinit uintptr_t frontier_end = 0;

constinit loft::Atomic<uint64_t> remote_frees{0};  // relaxed: a sum for counts

// Hoard's two parameters: a heap may hold K superblocks beyond its need, or be 1/f of it empty.
struct Parameters {
  uint64_t slack;  // K, in superblocks
  uint64_t empty;  // f, in percent
};
Parameters parameters() {
  static constinit loft::Atomic<uint64_t> known{0};  // relaxed: every thread reads the same
  uint64_t packed = known.load(loft::memory_order_relaxed);
  if (LOFT_UNLIKELY(packed == 0)) {
    const uint64_t slack = setting("A3ALLOC_SLACK", 4, 0, 1 << 20, "a number of superblocks");
    const uint64_t empty = setting("A3ALLOC_EMPTY", 25, 1, 99, "per cent, 1 to 99");
    known.store(packed = slack << 8 | empty, loft::memory_order_relaxed);
  }
  return {packed >> 8, packed & 0xff};
}

Superblock* header_of(const void* p) {
  return reinterpret_cast<Superblock*>(reinterpret_cast<uintptr_t>(p) & ~(kPage - 1));
}
// No object in a superblock lies at the start of its page, so one at the start of a granule is a
// span of its own (allocate_aligned).
bool is_span(const void* p) { return reinterpret_cast<uintptr_t>(p) % loft::kGranule == 0; }

// The calling thread's heap: its number by the system, modulo the processors (2.1), asked for once
// (4.1).
unsigned my_heap() {
  static __thread unsigned mine __attribute__((tls_model("initial-exec"))) = 0;
  if (LOFT_LIKELY(mine != 0)) return mine;
  unsigned count = processors.load(loft::memory_order_relaxed);
  if (count == 0) {
    count = static_cast<unsigned>(
        loft::clamp<size_t>(loft::os::processors(), 1, size_t{kMostHeaps} - 1));
    processors.store(count, loft::memory_order_relaxed);
  }
  return mine = 1 + static_cast<unsigned>(syscall(SYS_gettid)) % count;
}

void give_page(uintptr_t page) {
  auto* superblock = reinterpret_cast<Superblock*>(page);
  superblock->next = free_pages;
  free_pages = superblock;
}

// Pages in a row. One is taken from those globally free; more always come from the system (2.3).
Superblock* take_pages(size_t count) {
  const SpinGuard guard(pages_lock);
  if (count == 1 && free_pages != nullptr) {
    Superblock* const page = free_pages;
    free_pages = page->next;
    return page;
  }
  const size_t bytes = count * kPage;
  if (frontier_end - frontier < bytes) {
    constexpr size_t kLeast = 4;  // granules
    const size_t granules =
        loft::most(kLeast, loft::round_up(bytes, loft::kGranule) >> loft::kGranuleLog);
    if (!loft::span::initialise()) return nullptr;
    const loft::span::Range range = loft::span::acquire(granules, loft::kGranule);
    if (range.base == 0) return nullptr;
    for (; frontier != frontier_end; frontier += kPage) give_page(frontier);
    frontier = range.base;
    frontier_end = frontier + (granules << loft::kGranuleLog);
  }
  auto* const first = reinterpret_cast<Superblock*>(frontier);
  frontier += bytes;
  return first;
}

void give_pages(Superblock* first, size_t count) {
  const SpinGuard guard(pages_lock);
  for (size_t i = 0; i < count; ++i) give_page(reinterpret_cast<uintptr_t>(first) + i * kPage);
}

// A superblock with space, most full first; never a totally full one.
Superblock* with_space(Heap& heap, unsigned size_class) {
  for (unsigned group = kFull; group-- != 0;) {
    if (Superblock* found = heap.bins[size_class][group]; found != nullptr) return found;
  }
  return nullptr;
}

// Under the owner's lock. To another list if the group has changed; else to the front of its own,
// if it was freed into (2.2.2).
void refile(Heap& heap, Superblock* superblock, bool freed) {
  const unsigned group = group_of(*superblock);
  if (group == superblock->group && !freed) return;
  heap.remove(superblock);
  superblock->group = static_cast<uint8_t>(group);
  heap.insert(superblock);
}

// Under the owner's lock.
void* take_block(Heap& heap, Superblock* superblock) {
  const size_t size = size_of(superblock->size_class);
  unsigned word = 0;
  while (~superblock->bitmap[word] == 0) ++word;
  const unsigned bit = loft::lowest_bit(~superblock->bitmap[word]);
  superblock->bitmap[word] |= uint64_t{1} << bit;
  superblock->in_use += static_cast<uint32_t>(size);
  heap.in_use += size;
  refile(heap, superblock, false);
  return reinterpret_cast<char*>(superblock) + sizeof(Superblock) + (word * 64 + bit) * size;
}

// Moves a superblock into a heap, under the locks of both, or of its own if it has none.
void adopt(Heap& heap, unsigned owner, Superblock* superblock) {
  __atomic_store_n(&superblock->owner, static_cast<uint8_t>(owner), __ATOMIC_RELAXED);
  heap.in_use += superblock->in_use;
  heap.allocated += kPage;
  heap.insert(superblock);
}
void abandon(Heap& heap, Superblock* superblock) {
  heap.remove(superblock);
  heap.in_use -= superblock->in_use;
  heap.allocated -= kPage;
}

Superblock* fresh(unsigned size_class) {
  Superblock* const superblock = take_pages(1);
  if (superblock == nullptr) return nullptr;
  *superblock = Superblock{};
  superblock->size_class = static_cast<uint8_t>(size_class);
  superblock->pages = 1;
  // Places that no block has are in use for ever.
  for (unsigned block = blocks_of(size_class); block < 512; ++block) {
    superblock->bitmap[block / 64] |= uint64_t{1} << block % 64;
  }
  return superblock;
}

void* allocate_small(size_t bytes) {
  const unsigned size_class = class_of(bytes);
  const unsigned owner = my_heap();
  Heap& heap = heaps[owner];
  const SpinGuard guard(heap.lock);
  Superblock* superblock = with_space(heap, size_class);
  if (superblock == nullptr) {
    {
      const SpinGuard global(heaps[0].lock);
      superblock = with_space(heaps[0], size_class);
      if (superblock != nullptr) {
        abandon(heaps[0], superblock);
        adopt(heap, owner, superblock);
      }
    }
    if (superblock == nullptr) {
      superblock = fresh(size_class);
      if (superblock == nullptr) return nullptr;
      adopt(heap, owner, superblock);
    }
  }
  return take_block(heap, superblock);
}

// More than half a page (2.3).
void* allocate_huge(size_t bytes) {
  const size_t pages = (bytes + sizeof(Superblock) + kPage - 1) >> kPageLog;
  Superblock* const superblock = take_pages(pages);
  if (superblock == nullptr) return nullptr;
  *superblock = Superblock{};
  superblock->size_class = kHuge;
  superblock->pages = pages;
  return superblock + 1;
}

// Hoard's rule, which the report's heaps are modelled after (2.1): a heap that is too empty gives
// the global one a superblock of which at least the share f is free. Under both locks.
Superblock* surplus_of(Heap& heap) {
  const auto [slack, empty] = parameters();
  if (heap.in_use + slack * kPage >= heap.allocated) return nullptr;
  if (heap.in_use * 100 >= heap.allocated * (100 - empty)) return nullptr;
  for (auto& groups : heap.bins) {
    for (unsigned group = 0; group <= 3 - (empty + 24) / 25 && group < kFull; ++group) {
      if (groups[group] != nullptr) return groups[group];
    }
  }
  return nullptr;
}

// The heap that owns the superblock, locked. It may change until its lock is held.
Heap& lock_owner(Superblock* superblock) {
  for (;;) {
    const uint8_t owner = __atomic_load_n(&superblock->owner, __ATOMIC_RELAXED);
    Heap& heap = heaps[owner];
    heap.lock.lock();
    if (owner == __atomic_load_n(&superblock->owner, __ATOMIC_RELAXED)) return heap;
    heap.lock.unlock();
  }
}

void release_small(void* p, Superblock* superblock) {
  Heap& heap = lock_owner(superblock);
  if (&heap != &heaps[my_heap()]) remote_frees.fetch_add(1, loft::memory_order_relaxed);
  const size_t size = size_of(superblock->size_class);
  const size_t offset =
      static_cast<size_t>(static_cast<char*>(p) - reinterpret_cast<char*>(superblock + 1));
  const size_t block = offset >> (3 + superblock->size_class);
  superblock->bitmap[block / 64] &= ~(uint64_t{1} << block % 64);
  superblock->in_use -= static_cast<uint32_t>(size);
  heap.in_use -= size;
  Superblock* totally_free = nullptr;
  if (superblock->in_use == 0) {
    abandon(heap, superblock);
    totally_free = superblock;
  } else {
    refile(heap, superblock, true);
    if (&heap != &heaps[0]) {
      if (Superblock* surplus = surplus_of(heap); surplus != nullptr) {
        const SpinGuard global(heaps[0].lock);
        abandon(heap, surplus);
        adopt(heaps[0], 0, surplus);
      }
    }
  }
  heap.lock.unlock();
  // It becomes usable for any class (2.2.2).
  if (totally_free != nullptr) give_pages(totally_free, 1);
}

// An object that is a span: its length in granules stands for the pagemap entry's index.
void* allocate_span(size_t alignment, size_t bytes) {
  const size_t granules = loft::round_up(bytes, loft::kGranule) >> loft::kGranuleLog;
  if (granules > UINT32_MAX || !loft::span::initialise()) return nullptr;
  const loft::span::Range range =
      loft::span::acquire(granules, loft::most(alignment, loft::kGranule));
  if (range.base == 0) return nullptr;
  loft::pagemap.fill(range.base, granules,
                     loft::Entry(loft::kNoHeap, loft::kLarge, static_cast<uint32_t>(granules)));
  return reinterpret_cast<void*>(range.base);
}

size_t span_granules(const void* p) { return loft::pagemap.of(p).index(); }

}  // namespace

void* allocate(size_t bytes) {
  return bytes <= kPage / 2 && blocks_of(class_of(bytes)) != 0 ? allocate_small(bytes)
                                                               : allocate_huge(bytes);
}

void* allocate_aligned(size_t alignment, size_t bytes) {
  if (alignment >= kPage / 2 || bytes > kPage / 2 - alignment) {
    return allocate_span(alignment, bytes);
  }
  auto* const p = static_cast<char*>(allocate_small(bytes + alignment));
  if (p == nullptr) return nullptr;
  return reinterpret_cast<void*>(loft::round_up(reinterpret_cast<uintptr_t>(p), alignment));
}

void release(void* p) {
  if (is_span(p)) {
    const size_t granules = span_granules(p);
    const auto base = reinterpret_cast<uintptr_t>(p);
    loft::pagemap.fill(base, granules, loft::Entry{});
    return loft::span::release(base, granules, true);
  }
  Superblock* const superblock = header_of(p);
  if (superblock->size_class == kHuge) return give_pages(superblock, superblock->pages);
  release_small(p, superblock);
}

size_t usable_size(const void* p) {
  if (is_span(p)) return span_granules(p) << loft::kGranuleLog;
  const Superblock* const superblock = header_of(p);
  const auto offset = static_cast<size_t>(static_cast<const char*>(p) -
                                          reinterpret_cast<const char*>(superblock + 1));
  if (superblock->size_class == kHuge) {
    return superblock->pages * kPage - sizeof(Superblock) - offset;
  }
  const size_t size = size_of(superblock->size_class);
  return size - offset % size;
}

size_t zero_bytes(const void*) { return 0; }

void prepare_fork() {
  // Those of processors before the global one, as in allocate_small.
  for (unsigned heap = kMostHeaps; heap-- != 0;) heaps[heap].lock.lock();
  pages_lock.lock();
}

void finish_fork(bool child) {
  const auto finish = [=](SpinLock& lock) { child ? lock.reset() : lock.unlock(); };
  finish(pages_lock);
  for (Heap& heap : heaps) finish(heap.lock);
}

Counts counts() {
  Counts all;
  all.frees_remote = remote_frees.load(loft::memory_order_relaxed);
  const auto add = [&](const SpinLock& lock) {
    all.locks += lock.acquired();
    all.lock_waits += lock.waits();
  };
  for (const Heap& heap : heaps) add(heap.lock);
  add(pages_lock);
  return all;
}

}  // namespace engine
