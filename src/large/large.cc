#include "large/large.h"

#include <new>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/options.h"
#include "large/tails.h"
#include "limits/limits.h"
#include "os/os.h"
#include "space/discards.h"
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

// Pages between an object's end and the end of its granules do not count. They may be resident if
// the object, or an earlier one in the span, was longer. Under a hard limit they must go at once;
// otherwise they go in time. (With huge pages the system does as it likes; the limit then holds
// except for that.)
void leave_tail(Large& object, tails::Since since = tails::now()) {
  const uintptr_t end = object.base + object.bytes;
  const size_t tail = round_up(end, kGranule) - end;
  if (tail == 0 || get(options.thp) == kHugePrefer) return;
  if (LOFT_LIKELY(limits::hard() == limits::kNone)) {
    object.tailed = true;  // first: the child of a fork believes it of a thread that is gone
    tails::note(end, since);
    // The fence in note pairs with the one in tails::purge. Either this thread sees the limit here,
    // or the thread that has set it, and then gives all tails back, sees this tail.
    if (LOFT_LIKELY(limits::hard() == limits::kNone)) return;
    const tails::Since noted = tails::forget(end + tail);
    object.tailed = false;
    if (noted == tails::kNoTail) return;
  }
  split_at_ends(end, tail);
  os::discard(reinterpret_cast<void*>(end), tail);
}

// The records are far from the object, and most objects have never had a tail.
tails::Since forget_tail(Large& object) {
  if (!object.tailed) return tails::kNoTail;
  const tails::Since since = tails::forget(limit_of(object));
  object.tailed = false;
  return since;
}

}  // namespace

void enter(Large* object) {
  pagemap.fill(object->base, object->granules, Entry(kNoHeap, kLarge, metadata::index_of(object)));
}

void account(size_t before, size_t after) {
  if (before == after) return;
  part().live_bytes.fetch_add(after - before, memory_order_relaxed);
  if (before == 0) part().allocations.fetch_add(1, memory_order_relaxed);
}

namespace {

bool resize_in_place(Large* object, size_t bytes) {
  const size_t granules = granules_for(bytes);
  if (granules == object->granules) {
    if (!span::recount(object->bytes, bytes)) return false;
    set_length(object, bytes);
    return true;
  }
  const uintptr_t limit = limit_of(*object);
  const tails::Since since = forget_tail(*object);
  bool zero = true;
  if (granules > object->granules) {
    if (!span::extend(limit, granules - object->granules, zero, bytes - object->bytes)) {
      if (since != tails::kNoTail) leave_tail(*object, since);
      return false;
    }
    object->granules = granules;
    enter(object);
  } else {
    const uintptr_t rest = object->base + (granules << kGranuleLog);
    const size_t freed = object->granules - granules;
    object->granules = granules;
    if (object->moved) {
      span::release_moved(rest, freed, object->bytes - bytes);
    } else {
      span::release(rest, freed, true, object->bytes - bytes);
    }
    zero = false;
  }
  account(object->bytes, bytes);
  object->bytes = bytes;
  if (!zero) leave_tail(*object);
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
  // The pages of the object count once: only the growth is added.
  const size_t more = bytes - object->bytes;
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
      span::release(target.base, granules_for(bytes), !target.zero, more);
    }
    return false;
  }
  forget_tail(*object);
  const Large old = *object;
  *object = Large{target.base, bytes, granules_for(bytes), 0, old.asked, 0, 0, true, false, false,
                  false,       0,     old.sampled};
  enter(object);
  account(old.bytes, bytes);
  if (!target.zero) leave_tail(*object);
  if (old.moved) {
    span::release_moved(old.base, old.granules, 0);
  } else {
    moved_count.fetch_add(1, memory_order_relaxed);
    // A page behind the old end may still hold memory, from a time when the object was longer.
    const bool clean = os::discard(reinterpret_cast<void*>(old.base), old.granules << kGranuleLog);
    span::release(old.base, old.granules, !clean, 0);
  }
  return true;
}

}  // namespace

void* allocate(size_t asked, size_t alignment, bool* zero, Descriptors* spare) {
  const size_t bytes = round_up(asked, os::page_size());
  void* block = new_descriptor(spare);
  if (block == nullptr) return nullptr;
  const size_t granules = granules_for(bytes);
  const span::Range range = span::acquire(granules, alignment, bytes);
  if (range.base == 0) {
    metadata::release(block, sizeof(Large));
    return nullptr;
  }
  auto* object = new (block)
      Large{range.base, bytes, granules, 0, asked, 0, 0, false, false, false, false, 0, false};
  enter(object);
  account(0, bytes);
  if (!range.zero) part().cache_hits.fetch_add(1, memory_order_relaxed);
  if (!range.zero) leave_tail(*object);
  *zero = range.zero;
  return reinterpret_cast<void*>(range.base);
}

void release(Large* object, Descriptors* spare) {
  forget_tail(*object);
  const Large old = *object;
  account(old.bytes, 0);
  discard_descriptor(object, spare);
  if (old.moved) {
    moved_count.fetch_sub(1, memory_order_relaxed);
    span::release_moved(old.base, old.granules, old.bytes);
  } else {
    span::release(old.base, old.granules, true, old.bytes);
  }
}

void release_descriptors(Descriptors* spare) {
  while (spare->first != nullptr) metadata::release(pop(spare), sizeof(Large));
  spare->count = 0;
}

void set_length(Large* object, size_t bytes) {
  if (bytes == object->bytes) return;
  const bool shorter = bytes < object->bytes;
  const tails::Since since = forget_tail(*object);
  account(object->bytes, bytes);
  object->bytes = bytes;
  if (shorter) {
    leave_tail(*object);
  } else if (since != tails::kNoTail) {
    leave_tail(*object, since);
  }
}

void* resize(Large* object, size_t asked) {
  const size_t bytes = round_up(asked, os::page_size());
  if (bytes != object->bytes) {
    if (!resize_in_place(object, bytes)) {
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
    if (!resize_in_place(object, bytes)) return nullptr;
    resize_count.fetch_add(1, memory_order_relaxed);
  }
  object->asked = asked;
  return reinterpret_cast<void*>(object->base);
}

Totals totals() {
  Totals totals = {0, 0, 0, resize_count.load(memory_order_relaxed),
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

}  // namespace loft::large
