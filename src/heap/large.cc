#include <new>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/peek.h"
#include "base/size_class.h"
#include "heap/large.h"
#include "os/fault.h"
#include "os/os.h"
#include "space/span.h"

namespace loft::large {

namespace {

// From this size on, an object that grows is moved: moving its page table entries takes less time
// than copying its bytes. A shorter object is copied: the pages of its old place then serve the
// next object, while a move leaves that place without pages.
constexpr size_t kMoveMin = 512 * 1024;

// A moved object is a mapping of its own and cuts another in two. The system allows a process some
// 65 000 mappings. Beyond kMostMoved, objects are copied, except those of kAlwaysMoved or more: of
// these there are never many.
constexpr unsigned kMostMoved = 256;
constexpr size_t kAlwaysMoved = size_t{64} << 20;

// Relaxed: these sums of many writers are statistics and order nothing. The counters of every
// allocation are split into parts on separate lines: threads with distant stacks seldom share one.
constexpr unsigned kParts = 8;
struct alignas(2 * kCacheLine) Part {
  Atomic<size_t> live_bytes{0};
  Atomic<size_t> allocations{0};
  Atomic<size_t> cache_hits{0};
};
constinit Part parts[kParts];
constinit Atomic<size_t> resize_count{0};
constinit Atomic<size_t> move_count{0};

Part& part() {
  const auto stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) / kGranule;
  return parts[stack * 0x9E3779B97F4A7C15u >> (64 - highest_bit(kParts))];
}

// Relaxed: a few more than kMostMoved do no harm.
constinit Atomic<unsigned> moved_count{0};

constexpr unsigned kMostSpare = 16;  // descriptors

Large* pop(Descriptors* spare) {
  Large* const descriptor = spare->first;
  spare->first = reinterpret_cast<Large*>(descriptor->base);
  --spare->count;
  return descriptor;
}

void* new_descriptor(Descriptors* spare) {
  if (spare == nullptr || spare->first == nullptr) return metadata::allocate(sizeof(Large));
  return pop(spare);
}

void discard_descriptor(Large* object, Descriptors* spare) {
  if (spare == nullptr || spare->count >= kMostSpare) {
    return metadata::release(object, sizeof(Large));
  }
  object->kept = true;  // a stale pointer then leads to no object
  object->base = reinterpret_cast<uintptr_t>(spare->first);
  spare->first = object;
  ++spare->count;
}

uintptr_t limit_of(const Large& object) { return object.base + (object.granules << kGranuleLog); }

}  // namespace

void account(size_t before, size_t after) {
  if (before == after) return;
  part().live_bytes.fetch_add(after - before, memory_order_relaxed);
  if (before == 0) part().allocations.fetch_add(1, memory_order_relaxed);
}

namespace {

// Granules whose entries were removed.
void give_back(const Large& from, uintptr_t base, size_t granules) {
  if (from.moved) return span::release_moved(base, granules, granules << kGranuleLog);
  span::release_left(base, granules, true, granules << kGranuleLog);
}

bool resize_in_cell(Large* object, size_t bytes) {
  const size_t before = object->granules;
  const size_t granules = granules_for(bytes);
  if (granules > before) {
    if (!span::extend(limit_of(*object), granules - before)) return false;
    object->granules = granules;
    enter_anew(*object, before);
  } else if (granules < before) {
    object->granules = granules;
    enter_anew(*object, before);
    give_back(*object, limit_of(*object), before - granules);
  }
  account(object->bytes, bytes);
  object->bytes = bytes;
  return true;
}

// A moved object lies in two mappings. A kernel that does not move two at once refuses once, and
// the caller copies.
bool resize_by_moving(Large* object, size_t bytes) {
  if (!os::can_move_pages(object->moved)) return false;
  if (!object->moved && bytes < kAlwaysMoved &&
      moved_count.load(memory_order_relaxed) >= kMostMoved) {
    return false;
  }
  // The object counts once: only the growth is added.
  const size_t more = (granules_for(bytes) - object->granules) << kGranuleLog;
  const span::Range target = span::acquire_clean(granules_for(bytes), more);
  if (target.base == 0) return false;
  auto* const to = reinterpret_cast<char*>(target.base);
  // The move drops the pages at the target. If it is refused, these addresses may be lost, and no
  // memory must go with them.
  if (!target.zero) os::discard(to, object->bytes);
  if (!os::move_pages(reinterpret_cast<void*>(object->base), to, object->bytes)) {
    if (os::can_move_pages(false)) {
      const size_t rest = (granules_for(bytes) << kGranuleLog) - object->bytes;
      const bool clean = target.zero || os::discard(to + object->bytes, rest);
      span::release_target(target.base, granules_for(bytes), object->bytes, !clean, more);
    } else {
      span::release_left(target.base, granules_for(bytes), !target.zero, more);
    }
    return false;
  }
  const Large old = *object;
  *object = Large{target.base, bytes, granules_for(bytes), 0, old.asked, 0, 0, true, false,
                  false,       0,     old.sampled};
  enter(*object);
  leave(old);
  account(old.bytes, bytes);
  if (old.moved) {
    span::release_moved(old.base, old.granules, 0);
  } else {
    moved_count.fetch_add(1, memory_order_relaxed);
    // A page behind the old end may still hold memory, from a time when the object was longer.
    const bool clean = os::discard(reinterpret_cast<void*>(old.base), old.granules << kGranuleLog);
    span::release_left(old.base, old.granules, !clean, 0);
  }
  return true;
}

}  // namespace

void* allocate(size_t asked, size_t alignment, bool* zero, Descriptors* spare) {
  const size_t bytes = round_up(asked, os::page_size());
  void* block = new_descriptor(spare);
  if (block == nullptr) return nullptr;
  const size_t granules = granules_for(bytes);
  const span::Range range = span::acquire(granules, alignment);
  if (range.base == 0) {
    metadata::release(block, sizeof(Large));
    return nullptr;
  }
  auto* object =
      new (block) Large{range.base, bytes, granules, 0, asked, 0, 0, false, false, false, 0, false};
  enter(*object);
  account(0, bytes);
  if (!range.zero) part().cache_hits.fetch_add(1, memory_order_relaxed);
  *zero = range.zero;
  return reinterpret_cast<void*>(range.base);
}

void release(Large* object, Descriptors* spare) {
  const Large old = *object;
  account(old.bytes, 0);
  leave(old);
  discard_descriptor(object, spare);
  if (old.moved) moved_count.fetch_sub(1, memory_order_relaxed);
  give_back(old, old.base, old.granules);
}

void release_descriptors(Descriptors* spare) {
  while (spare->first != nullptr) metadata::release(pop(spare), sizeof(Large));
  spare->count = 0;
}

void* resize(Large* object, size_t asked) {
  const size_t bytes = round_up(asked, os::page_size());
  if (bytes != object->bytes) {
    if (!resize_in_cell(object, bytes)) {
      if (bytes < kMoveMin || !resize_by_moving(object, bytes)) return nullptr;
      move_count.fetch_add(1, memory_order_relaxed);
    }
    resize_count.fetch_add(1, memory_order_relaxed);
  }
  object->asked = asked;
  return reinterpret_cast<void*>(object->base);
}

void* expand(Large* object, size_t asked) {
  const size_t bytes = round_up(asked, os::page_size());
  if (bytes != object->bytes) {
    if (!resize_in_cell(object, bytes)) return nullptr;
    resize_count.fetch_add(1, memory_order_relaxed);
  }
  object->asked = asked;
  return reinterpret_cast<void*>(object->base);
}

LargeTotals totals() {
  LargeTotals totals = {0, 0, 0, resize_count.load(memory_order_relaxed),
                        move_count.load(memory_order_relaxed)};
  for (const Part& part : parts) {
    totals.bytes += part.live_bytes.load(memory_order_relaxed);
    totals.allocations += part.allocations.load(memory_order_relaxed);
    totals.cache_hits += part.cache_hits.load(memory_order_relaxed);
  }
  // The sum is below zero if an object was added to a part read before and removed from one read
  // later.
  if (static_cast<ptrdiff_t>(totals.bytes) < 0) totals.bytes = 0;
  return totals;
}

namespace entries {

namespace {

// Where the window is cut into pieces of kHuge: the object in which a piece begins, by its index in
// the metadata; 0 for any other. A huge object has the beginning of one piece at least. So an
// address in an object has the object's index at the beginning of its piece, or of the next one.
// Relaxed, as entries of the pagemap: an object's owner writes while others have no pointer into
// it.
constinit Atomic<uint32_t> pieces[kLargestWindow / kHuge + 1];

constexpr unsigned kHugeLog = highest_bit(kHuge);

size_t piece_of(uintptr_t address) { return (address - pagemap.base) >> kHugeLog; }

}  // namespace

void name_pieces(uintptr_t from, uintptr_t end, uint32_t index) {
  for (size_t i = piece_of(from + kHuge - 1); i < piece_of(end + kHuge - 1); ++i) {
    pieces[i].store(index, memory_order_relaxed);
  }
}

Entry entry_by_pieces(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  for (size_t i = piece_of(address); i <= piece_of(address) + 1; ++i) {
    const uint32_t index = pieces[i].load(memory_order_relaxed);
    if (index == 0) continue;
    const auto* const object = metadata::at_index<Large>(index);
    if (address - peek(object->base) < peek(object->granules) << kGranuleLog) {
      return Entry(kNoHeap, kLarge, index);
    }
  }
  return Entry{};
}

}  // namespace entries

void enter_anew(const Large& object, size_t before) {
  enter(object);
  const size_t had = entries::count(before);
  const size_t has = entries::count(object.granules);
  if (had > has) pagemap.fill(entries::limit(object, has), had - has, Entry{});
  if (LOFT_LIKELY(!is_huge(before))) return;
  const uintptr_t from =
      is_huge(object.granules) ? entries::limit(object, object.granules) : object.base;
  entries::name_pieces(from, entries::limit(object, before), 0);
}

namespace {

// From this size on, looking at some pages costs little beside clearing them all.
constexpr size_t kLookMin = size_t{1} << 20;
constexpr size_t kSamples = 16;  // pages examined first

// Whether a page reads as zero. The first line of most other pages already differs.
bool is_zero(const char* page, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kCacheLine) {
    uint64_t words[kCacheLine / sizeof(uint64_t)];
    __builtin_memcpy(words, page + at, kCacheLine);
    uint64_t any = 0;
    for (const uint64_t word : words) any |= word;
    if (any != 0) return false;
  }
  return true;
}

// Whether more than three quarters of the sampled pages read as zero. Reading a page without memory
// maps the system's one page of zeros, and gives it none.
bool is_mostly_zero(const char* at, size_t bytes, size_t page) {
  const size_t stride = round_down(bytes / kSamples, page);
  size_t zeros = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    if (is_zero(at + i * stride, page)) ++zeros;
  }
  return zeros > kSamples * 3 / 4;
}

// Skips pages that read as zero: writing would give memory to a page without any.
void clear_pages(char* at, size_t bytes, size_t page) {
  size_t first = 0;  // of the pages before `i` that are yet to be cleared
  for (size_t i = 0; i < bytes; i += page) {
    if (LOFT_LIKELY(!is_zero(at + i, page))) continue;
    __builtin_memset(at + first, 0, i - first);
    first = i + page;
  }
  __builtin_memset(at + first, 0, bytes - first);
}

}  // namespace

void clear(void* at, size_t bytes) {
  const size_t page = os::page_size();
  LOFT_CHECK(bytes % page == 0);
  auto* const base = static_cast<char*>(at);
  if (bytes < kLookMin) {
    __builtin_memset(base, 0, bytes);
  } else if (!is_mostly_zero(base, bytes, page) || !os::discard(base, bytes)) {
    clear_pages(base, bytes, page);
  }
}

}  // namespace loft::large
