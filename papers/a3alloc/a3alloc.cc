// a3alloc (Brindus and Pham, 2019), and Hoard, its parent, as its report describes it: heaps of
// processors under spinlocks, superblocks with bitmaps in lists by fullness. config.h has what the
// two differ in. README.md says which section each part follows, and what the report leaves open.
#include "a3alloc/config.h"
#include "a3alloc/heap.h"
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

// heaps[0] is the global one; those of processors follow.
constinit Heap heaps[kMostHeaps]{};
constinit loft::Atomic<unsigned> processors{0};

// The pages: those globally free (2.2.2), and the rest of what the floor below gave, which counts
// as taken from the system page by page.
constinit SpinLock pages_lock;
constinit Superblock* free_pages = nullptr;
constinit uintptr_t frontier = 0;
constinit uintptr_t frontier_end = 0;
constinit loft::Counter taken;  // bytes; its writer holds the lock

// Relaxed: sums for counts.
constinit loft::Atomic<uint64_t> remote_frees{0};
constinit loft::Atomic<uint64_t> in_spans{0};
constinit loft::Atomic<uint64_t> most_in_spans{0};

// Hoard's two parameters: a heap may hold K superblocks beyond its need, or be 1/f of it empty.
struct Parameters {
  uint64_t slack;  // K, in superblocks
  uint64_t empty;  // f, in percent
};
Parameters parameters() {
  static constinit loft::Atomic<uint64_t> known{0};  // relaxed: every thread reads the same
  uint64_t packed = known.load(loft::memory_order_relaxed);
  if (LOFT_UNLIKELY(packed == 0)) {
    const uint64_t slack =
        setting(Config::kSlackVariable, 4, 0, 1 << 20, "a number of superblocks");
    const uint64_t empty = setting(Config::kEmptyVariable, 25, 1, 99, "per cent, 1 to 99");
    known.store(packed = slack << 8 | empty, loft::memory_order_relaxed);
  }
  return {packed >> 8, packed & 0xff};
}
// The report has a heap for each processor; more or fewer show what it did on another machine.
unsigned number_of_heaps() {
  constexpr size_t kMost = size_t{kMostHeaps} - 1;
  return static_cast<unsigned>(setting(Config::kHeapsVariable,
                                       loft::clamp<size_t>(loft::os::processors(), 1, kMost), 1,
                                       kMost, "a number of heaps, 1 to 255"));
}
// So that a bad value is refused although no heap ever gets too empty, or nothing is allocated.
__attribute__((constructor(103))) void read_parameters() {
  static constexpr const char* kLocks[] = {"spin", "sleep", nullptr};
  parameters();
  number_of_heaps();
  SpinLock::let_others(choice(Config::kLockVariable, 0, kLocks) == 1);
}

Superblock* header_of(const void* p) {
  return reinterpret_cast<Superblock*>(reinterpret_cast<uintptr_t>(p) & ~(kSuperblock - 1));
}
// No object in a superblock lies at the start of its page, so one at the start of a granule is a
// span of its own (allocate_aligned).
bool is_span(const void* p) { return reinterpret_cast<uintptr_t>(p) % loft::kGranule == 0; }

// The calling thread's heap: its number by the system, modulo the processors (2.1), asked for once
// (4.1).
uint8_t my_heap() {
  static __thread uint8_t mine __attribute__((tls_model("initial-exec"))) = 0;
  if (LOFT_LIKELY(mine != 0)) return mine;
  unsigned count = processors.load(loft::memory_order_relaxed);
  if (count == 0) {
    count = number_of_heaps();
    processors.store(count, loft::memory_order_relaxed);
  }
  return mine = static_cast<uint8_t>(1 + static_cast<unsigned>(loft::os::thread_number()) % count);
}

constexpr size_t granules_of(size_t bytes) {
  return loft::round_up(bytes, loft::kGranule) >> loft::kGranuleLog;
}

void give_page(uintptr_t page) {
  auto* superblock = reinterpret_cast<Superblock*>(page);
  superblock->next = free_pages;
  free_pages = superblock;
}

// More at the frontier, or a new one. Under the lock.
bool grow(size_t bytes) {
  if (!loft::span::initialise()) return false;
  constexpr size_t kLeast = 4;  // granules
  // As sbrk does, unless somebody else has what follows.
  const size_t more = loft::most(kLeast, granules_of(bytes - (frontier_end - frontier)));
  if (frontier_end != 0 && loft::span::extend(frontier_end, more)) {
    frontier_end += more << loft::kGranuleLog;
    return true;
  }
  const size_t granules = loft::most(kLeast, granules_of(bytes));
  const loft::span::Range range = loft::span::acquire(granules, loft::kGranule);
  if (range.base == 0) return false;
  taken.add(frontier_end - frontier);
  for (; frontier != frontier_end; frontier += kSuperblock) give_page(frontier);
  frontier = range.base;
  frontier_end = frontier + (granules << loft::kGranuleLog);
  return true;
}

// Pages in a row. One is taken from those globally free; more always come from the system (2.3).
Superblock* take_pages(size_t count) {
  const SpinGuard guard(pages_lock);
  if (count == 1 && free_pages != nullptr) {
    Superblock* const page = free_pages;
    free_pages = page->next;
    return page;
  }
  const size_t bytes = count * kSuperblock;
  if (frontier_end - frontier < bytes && !grow(bytes)) return nullptr;
  auto* const first = reinterpret_cast<Superblock*>(frontier);
  frontier += bytes;
  taken.add(bytes);
  return first;
}

void give_pages(Superblock* first, size_t count) {
  const SpinGuard guard(pages_lock);
  for (size_t i = 0; i < count; ++i)
    give_page(reinterpret_cast<uintptr_t>(first) + i * kSuperblock);
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
  heap.refile(superblock, false);
  return reinterpret_cast<char*>(superblock) + kHeader + (word * 64 + bit) * size;
}

Superblock* fresh(unsigned size_class) {
  Superblock* const superblock = take_pages(1);
  if (superblock == nullptr) return nullptr;
  *superblock = Superblock{};
  superblock->size_class = static_cast<uint8_t>(size_class);
  superblock->pages = 1;
  // Places that no block has are in use for ever.
  for (unsigned block = blocks_of(size_class); block < kPlaces; ++block) {
    superblock->bitmap[block / 64] |= uint64_t{1} << block % 64;
  }
  return superblock;
}

void* allocate_small(size_t bytes) {
  const unsigned size_class = Config::class_of(bytes);
  const uint8_t owner = my_heap();
  Heap& heap = heaps[owner];
  const SpinGuard guard(heap.lock);
  Superblock* superblock = heap.with_space(size_class);
  if (superblock == nullptr) {
    {
      const SpinGuard global(heaps[0].lock);
      superblock = heaps[0].with_space(size_class);
      if (superblock != nullptr) {
        heaps[0].abandon(superblock);
        heap.adopt(owner, superblock);
      }
    }
    if (superblock == nullptr) {
      superblock = fresh(size_class);
      if (superblock == nullptr) return nullptr;
      heap.adopt(owner, superblock);
    }
  }
  return take_block(heap, superblock);
}

// Hoard's rule, which the report's heaps are modelled after (2.1): a heap that is too empty gives
// the global one a superblock of which at least the share f is free. Under both locks.
Superblock* surplus_of(Heap& heap) {
  const auto [slack, empty] = parameters();
  if (heap.in_use + slack * kSuperblock >= heap.allocated) return nullptr;
  if (heap.in_use * 100 >= heap.allocated * (100 - empty)) return nullptr;
  // The groups of which each superblock is that empty; else the emptiest there is.
  const auto groups_given = static_cast<unsigned>(loft::most<uint64_t>(4 - (empty + 24) / 25, 1));
  for (auto& groups : heap.bins) {
    for (unsigned group = 0; group < groups_given; ++group) {
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
  const size_t block = Config::block_of(offset, superblock->size_class);
  superblock->bitmap[block / 64] &= ~(uint64_t{1} << block % 64);
  superblock->in_use -= static_cast<uint32_t>(size);
  heap.in_use -= size;
  Superblock* totally_free = nullptr;
  if (superblock->in_use == 0) {
    heap.abandon(superblock);
    totally_free = superblock;
  } else {
    heap.refile(superblock, true);
    if (&heap != &heaps[0]) {
      if (Superblock* surplus = surplus_of(heap); surplus != nullptr) {
        const SpinGuard global(heaps[0].lock);
        heap.abandon(surplus);
        heaps[0].adopt(0, surplus);
      }
    }
  }
  heap.lock.unlock();
  // It becomes usable for any class (2.2.2).
  if (totally_free != nullptr) give_pages(totally_free, 1);
}

// An object that is a span: its length in pages, which the system would give, stands for the
// pagemap entry's index.
constexpr unsigned kPageLog = 12;

void* allocate_span(size_t alignment, size_t bytes) {
  const size_t length = loft::round_up(bytes, size_t{1} << kPageLog);
  const size_t granules = granules_of(bytes);
  if (length >> kPageLog > UINT32_MAX || !loft::span::initialise()) return nullptr;
  const loft::span::Range range =
      loft::span::acquire(granules, loft::most(alignment, loft::kGranule));
  if (range.base == 0) return nullptr;
  loft::pagemap.fill(
      range.base, granules,
      loft::Entry(loft::kNoHeap, loft::kLarge, static_cast<uint32_t>(length >> kPageLog)));
  const uint64_t now = in_spans.fetch_add(length, loft::memory_order_relaxed) + length;
  uint64_t most = most_in_spans.load(loft::memory_order_relaxed);
  while (most < now && !most_in_spans.compare_exchange_weak(most, now, loft::memory_order_relaxed,
                                                            loft::memory_order_relaxed)) {
  }
  return reinterpret_cast<void*>(range.base);
}

size_t length_of_span(const void* p) { return size_t{loft::pagemap.of(p).index()} << kPageLog; }

void release_span(void* p) {
  const size_t length = length_of_span(p);
  const size_t granules = granules_of(length);
  const auto base = reinterpret_cast<uintptr_t>(p);
  // With the system as the owner of what is huge, its pages leave with it, as munmap's would.
  const bool gone = Config::kHugeFromSystem && loft::os::discard(p, granules << loft::kGranuleLog);
  loft::pagemap.fill(base, granules, loft::Entry{});
  in_spans.fetch_sub(length, loft::memory_order_relaxed);
  loft::span::release(base, granules, !gone);
}

// More than half a superblock (2.3).
void* allocate_huge(size_t bytes) {
  if constexpr (Config::kHugeFromSystem) return allocate_span(loft::kGranule, bytes);
  const size_t pages = (bytes + kHeader + kSuperblock - 1) >> Config::kSuperblockLog;
  Superblock* const superblock = take_pages(pages);
  if (superblock == nullptr) return nullptr;
  *superblock = Superblock{};
  superblock->size_class = kHuge;
  superblock->pages = pages;
  return superblock + 1;
}

}  // namespace

void* allocate(size_t bytes) {
  const bool fits = bytes <= kSuperblock / 2 && blocks_of(Config::class_of(bytes)) != 0;
  return fits ? allocate_small(bytes) : allocate_huge(bytes);
}

void* allocate_aligned(size_t alignment, size_t bytes) {
  if (alignment >= kSuperblock / 2 || bytes > kSuperblock / 2 - alignment) {
    return allocate_span(alignment, bytes);
  }
  auto* const p = static_cast<char*>(allocate_small(bytes + alignment));
  if (p == nullptr) return nullptr;
  return reinterpret_cast<void*>(loft::round_up(reinterpret_cast<uintptr_t>(p), alignment));
}

void release(void* p) {
  if (is_span(p)) return release_span(p);
  Superblock* const superblock = header_of(p);
  if (superblock->size_class == kHuge) return give_pages(superblock, superblock->pages);
  release_small(p, superblock);
}

size_t usable_size(const void* p) {
  if (is_span(p)) return length_of_span(p);
  const Superblock* const superblock = header_of(p);
  const auto offset = static_cast<size_t>(static_cast<const char*>(p) -
                                          reinterpret_cast<const char*>(superblock + 1));
  if (superblock->size_class == kHuge) {
    return superblock->pages * kSuperblock - kHeader - offset;
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
  // The heaps themselves lie in pages, too (2.1).
  const size_t heaps_here = processors.load(loft::memory_order_relaxed);
  const size_t table = heaps_here == 0 ? 0 : (1 + heaps_here) * sizeof(Heap);
  all.heap_bytes = loft::round_up(table, kSuperblock) + taken.get() +
                   most_in_spans.load(loft::memory_order_relaxed);
  return all;
}

}  // namespace engine
