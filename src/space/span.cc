#include "space/span.h"

#include <new>

#include "base/list.h"
#include "base/macros.h"
#include "base/options.h"
#include "os/fault.h"
#include "os/lock.h"
#include "space/free_spans.h"
#include "space/limits.h"
#include "space/low_water.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/window.h"

namespace loft {

constinit Pagemap pagemap;

namespace span {

namespace {

constinit os::Lock lock;
constinit Atomic<bool> initialised{false};

// Granules at and above the frontier were never handed out.
constinit uintptr_t frontier = 0;

constinit Counter acquired_count;
constinit Counter released_count;

// Between two steps of a purge, without the lock; in no bin. Counted as resident.
constexpr size_t kLongestStep = size_t{64} << 20;  // acquire may wait for one
constinit List<Span> in_transit;
constinit Counter in_transit_bytes;

// What counts of the granules in use is the sum of the two: the second is what was added without
// the lock. Relaxed: whoever gives granules back under the lock has recounted them before.
constinit Counter in_use;
constinit Atomic<size_t> recounted{0};

constexpr size_t kLongStep = size_t{64} << 20;  // of the frontier

constinit LowWater<kDecayTicks> least_dirty;
constinit Atomic<uint32_t> tick_count{0};

size_t dirty_bytes() { return free_spans::bytes[free_spans::kDirty].get(); }

bool advance_frontier(size_t bytes) {
  const uintptr_t target = frontier + bytes;
  if (target < frontier || target > window.heap.end) return false;
  // What a region has got it keeps. So a long step, of which metadata's share is much, asks for all
  // of it first: what is refused must not cost others their memory.
  if (bytes > kLongStep && !os::has_memory_for(bytes + bytes / kMetadataShare)) return false;
  if (!metadata::keep_room_for(target - window.heap.base) || !window.heap.grow(target)) {
    return false;
  }
  const size_t entries = (window.heap.committed - window.heap.base) >> kGranuleLog;
  if (!window.pagemap.grow(window.pagemap.base + entries * sizeof(Entry))) return false;
  __atomic_store_n(&frontier, target, __ATOMIC_RELAXED);  // used_bytes
  return true;
}

size_t purge_locked(size_t keep) {
  size_t given_back = 0;
  while (dirty_bytes() > keep) {
    Span* s = free_spans::longest(free_spans::kDirty);
    if (s == nullptr) break;
    const uintptr_t base = s->base;
    const size_t granules = s->granules;
    // Refused where the program has locked its memory: it asked for the pages to stay.
    s->refused = !os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
    if (s->refused) {
      free_spans::refused_bytes.add(free_spans::bytes_of(s));
      continue;
    }
    free_spans::remove(s);
    free_spans::insert(base, granules, false);
    given_back += granules << kGranuleLog;
  }
  return given_back;
}

size_t committed_locked() {
  return in_use.get() + recounted.load(memory_order_relaxed) + dirty_bytes() +
         in_transit_bytes.get() + metadata::touched_bytes();
}

// Whether `bytes` more may count. Free spans that are resident give way.
bool admit(size_t bytes) {
  const size_t limit = limits::hard();
  if (LOFT_LIKELY(limit == limits::kNone)) return true;
  if (bytes > limit) return false;
  const auto excess = [=] {
    const size_t now = committed_locked();
    return now > limit - bytes ? now - (limit - bytes) : 0;
  };
  const size_t dirty = dirty_bytes();
  // Where that would not do, they are of more use as they are.
  if (const size_t most = excess(); most != 0 && most <= dirty) purge_locked(dirty - most);
  return excess() == 0;
}

Range take_from(Span* s, size_t granules) {
  if (s == nullptr) return {};
  const Range range{s->base, !s->dirty};
  free_spans::take_front(s, granules);
  least_dirty.see(dirty_bytes());
  return range;
}

// Of two listed spans, of which the second begins where the first ends.
Range take_from_both(Span* first, Span* second, size_t granules) {
  if (first == nullptr || second == nullptr) return {};
  if (first->granules >= granules) return take_from(first, granules);
  if (first->granules + second->granules < granules) return {};
  const Range range{first->base, !first->dirty && !second->dirty};
  free_spans::take_front(second, granules - first->granules);
  free_spans::remove(first);
  least_dirty.see(dirty_bytes());
  return range;
}

// A resident span and a clean one do not join, and a long object that comes again and again would
// take as many addresses anew, and as much memory, once a part of its span was purged. Looks at the
// longest of each kind.
Range take_in_two_parts(size_t granules) {
  for (const bool dirty : {free_spans::kDirty, free_spans::kClean}) {
    Span* s = free_spans::longest(dirty);
    if (s == nullptr) continue;
    Span* before = free_spans::at(s->base - kGranule);
    Span* behind = free_spans::at(s->base + free_spans::bytes_of(s));
    if (const Range range = take_from_both(s, behind, granules); range.base != 0) return range;
    if (const Range range = take_from_both(before, s, granules); range.base != 0) return range;
  }
  return {};
}

// What is free last of all, in one part or two, and as many new granules as it lacks: for one that
// comes a little longer each time, or whose span has lost its first granule to a slab.
Range take_last_and_more(size_t granules) {
  Span* last = free_spans::at(frontier - kGranule);
  if (last == nullptr) return {};
  if (last->granules >= granules) return take_from(last, granules);
  Span* before = free_spans::at(last->base - kGranule);
  const size_t free = last->granules + (before == nullptr ? 0 : before->granules);
  if (free >= granules) return take_from_both(before, last, granules);
  if (!advance_frontier((granules - free) << kGranuleLog)) return {};
  const Range range{before == nullptr ? last->base : before->base,
                    before == nullptr && !last->dirty};
  free_spans::remove(last);
  if (before != nullptr) free_spans::remove(before);
  least_dirty.see(dirty_bytes());
  return range;
}

// `mixed`: a part may be resident and the rest clean.
Range acquire_locked(size_t granules, size_t bytes, bool mixed) {
  // Resident spans first: a page that is there costs no fault and no growth.
  if (LOFT_LIKELY(committed_locked() <= limits::hard())) {
    Span* dirty = free_spans::find(free_spans::kDirty, granules);
    if (const Range range = take_from(dirty, granules); range.base != 0) return range;
  }
  if (!admit(bytes)) return {};
  Span* clean = free_spans::find(free_spans::kClean, granules);
  if (const Range range = take_from(clean, granules); range.base != 0) return range;
  if (mixed) {
    if (const Range range = take_in_two_parts(granules); range.base != 0) return range;
    if (const Range range = take_last_and_more(granules); range.base != 0) return range;
  }
  const uintptr_t base = frontier;
  if (advance_frontier(granules << kGranuleLog)) return {base, true};
  // Once all are clean, what is free is in its largest pieces.
  purge_locked(0);
  clean = free_spans::find_any(free_spans::kClean, granules);
  if (const Range range = take_from(clean, granules); range.base != 0) return range;
  return take_last_and_more(granules);
}

// As above; what is on its way to the system comes back before anybody is told that there is no
// memory. Whoever sent it needs nothing but this lock for that.
Range acquire_patiently(size_t granules, size_t bytes, bool mixed) {
  for (;;) {
    const Range range = acquire_locked(granules, bytes, mixed);
    if (range.base != 0 || in_transit.empty()) return range;
    lock.unlock();
    os::yield();
    lock.lock();
  }
}

Range acquire_aligned(size_t granules, size_t alignment, size_t bytes) {
  const size_t slack = alignment <= kGranule ? 0 : (alignment >> kGranuleLog) - 1;
  if (granules + slack > (window.heap.end - window.heap.base) >> kGranuleLog) return {};
  if (slack == 0) return acquire_patiently(granules, bytes, true);
  // What is cut off goes back as what it was.
  const Range wide = acquire_patiently(granules + slack, bytes, false);
  if (wide.base == 0) return {};
  const uintptr_t base = round_up(wide.base, alignment);
  const size_t head = (base - wide.base) >> kGranuleLog;
  if (head != 0) free_spans::insert(wide.base, head, !wide.zero);
  if (slack != head) free_spans::insert(base + (granules << kGranuleLog), slack - head, !wide.zero);
  return {base, wide.zero};
}

// Where memory is tight, without the lock: what is too much of resident spans goes at once, and
// then for a while nothing. A page that comes back costs some ten times what it took to give it, so
// that a program that frees and allocates the same again and again loses a part of its time to it,
// and not nearly all.
void relieve() {
  constexpr uint64_t kPause = 64;             // times what the purge took
  static constinit Atomic<uint64_t> next{0};  // relaxed: two at a time do no harm
  if (LOFT_LIKELY(!limits::tight())) return;
  const size_t kept = limits::dirty_kept();
  if (dirty_bytes() <= kept) return;
  const uint64_t begin = os::now_ns();
  if (begin < next.load(memory_order_relaxed)) return;
  purge(kept / 2);
  const uint64_t end = os::now_ns();
  next.store(end + kPause * (end - begin), memory_order_relaxed);
}

bool extend_locked(uintptr_t end, size_t granules, bool& zero) {
  if (end == frontier) return advance_frontier(granules << kGranuleLog);
  Span* next = free_spans::at(end);
  if (next == nullptr || next->granules < granules) return false;
  zero = zero && !next->dirty;
  free_spans::take_front(next, granules);
  least_dirty.see(dirty_bytes());
  return true;
}

void lose(uintptr_t base, size_t granules, size_t bytes) {
  pagemap.fill(base, granules, Entry{});
  recounted.fetch_add(-bytes, memory_order_relaxed);
}

}  // namespace

bool initialise() {
  // Acquire pairs with the release below: the pagemap is laid out.
  if (LOFT_LIKELY(initialised.load(memory_order_acquire))) return true;
  const os::Guard guard(lock);
  if (initialised.load(memory_order_relaxed)) return true;
  if (!open_window()) return false;
  pagemap.set_table(window.heap.base, reinterpret_cast<Entry*>(window.pagemap.base));
  pagemap.limit = pagemap.thread_limit = (window.heap.end - window.heap.base) >> kAlignmentLog;
  __atomic_store_n(&frontier, window.heap.base, __ATOMIC_RELAXED);  // used_bytes
  initialised.store(true, memory_order_release);
  return true;
}

Range acquire(size_t granules, size_t alignment, size_t bytes) {
  Range range;
  {
    const os::Guard guard(lock);
    range = acquire_aligned(granules, alignment, bytes);
    if (range.base != 0) {
      acquired_count.add(1);
      in_use.add(bytes);
    }
    limits::weigh(committed_locked());
  }
  relieve();
  return range;
}

namespace {

size_t purge_step_above(size_t floor, size_t wanted);

}  // namespace

void release(uintptr_t base, size_t granules, bool dirty, size_t bytes) {
  const size_t keep = get(options.dirty_bytes);
  const size_t floor = keep - keep / 8;  // not each one that follows makes a system call
  size_t excess = 0;
  pagemap.fill(base, granules, Entry{});
  {
    const os::Guard guard(lock);
    released_count.add(1);
    free_spans::insert(base, granules, dirty);
    in_use.add(-bytes);
    limits::weigh(committed_locked());
    const size_t resident = dirty_bytes() - free_spans::refused_bytes.get();
    if (LOFT_UNLIKELY(resident > keep)) excess = resident - floor;
  }
  // As much as there was then: what others free meanwhile is theirs to give back.
  for (size_t step = 1; excess != 0 && step != 0; excess -= least(step, excess)) {
    step = purge_step_above(floor, excess);
  }
  relieve();
}

bool extend(uintptr_t end, size_t granules, bool& zero, size_t bytes) {
  bool done = false;
  {
    const os::Guard guard(lock);
    done = admit(bytes) && extend_locked(end, granules, zero);
    if (done) in_use.add(bytes);
    limits::weigh(committed_locked());
  }
  relieve();
  return done;
}

bool recount(size_t from, size_t to) {
  if (to > from && limits::hard() != limits::kNone) {
    const os::Guard guard(lock);
    if (!admit(to - from)) return false;
    recounted.fetch_add(to - from, memory_order_relaxed);  // before the next one is admitted
    return true;
  }
  recounted.fetch_add(to - from, memory_order_relaxed);
  return true;
}

void release_moved(uintptr_t base, size_t granules, size_t bytes) {
  // First, while it is ours for certain: what is lost then is addresses alone.
  os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
  if (os::renew(reinterpret_cast<void*>(base), granules << kGranuleLog)) {
    advise_huge_pages(base, granules << kGranuleLog);
    release(base, granules, false, bytes);
  } else {
    lose(base, granules, bytes);
  }
}

void release_target(uintptr_t base, size_t granules, size_t moved, bool dirty, size_t bytes) {
  if (os::commit(reinterpret_cast<void*>(base), moved, false)) {
    advise_huge_pages(base, moved);
    release(base, granules, dirty, bytes);
  } else {
    lose(base, granules, bytes);
  }
}

uint32_t ticks() { return tick_count.load(memory_order_relaxed); }

size_t idle_bytes() {
  const os::Guard guard(lock);
  // Relaxed: who sees a tick late acts at the next one.
  tick_count.store(ticks() + 1, memory_order_relaxed);
  limits::weigh(committed_locked());  // they may have changed
  const size_t used = in_use.get() + recounted.load(memory_order_relaxed);
  return least_dirty.tick(dirty_bytes(), used / kPlentyShare);
}

namespace {

// Takes up to `wanted` bytes of long dirty spans out of the bins, as at most `most` spans, but not
// the last `floor` bytes of them.
size_t send_into_transit(size_t floor, size_t wanted, Span** chosen, size_t most_spans) {
  const os::Guard guard(lock);
  const size_t unit = get(options.thp) == kHugePrefer ? kHugePage : kGranule;
  const size_t dirty_before = dirty_bytes();
  const size_t resident = dirty_before - free_spans::refused_bytes.get();
  wanted = least(wanted, resident - least(floor, resident));
  size_t count = 0;
  for (size_t left = round_up(wanted, kGranule) >> kGranuleLog; left != 0 && count < most_spans;) {
    Span* longest = free_spans::longest(free_spans::kDirty);
    Span* s = longest == nullptr ? nullptr : free_spans::take_part_to_purge(longest, left, unit);
    if (s == nullptr) break;
    in_transit.push_front(s);
    in_transit_bytes.add(free_spans::bytes_of(s));
    left -= least(left, s->granules);
    chosen[count++] = s;
  }
  // What goes was the idle part.
  least_dirty.take(dirty_before - dirty_bytes());
  return count;
}

// Refused where the program has locked its memory: it asked for the pages to stay.
void arrive(Span* s, bool refused) {
  in_transit.remove(s);
  in_transit_bytes.add(-free_spans::bytes_of(s));
  if (refused) return free_spans::link_refused(s);
  const Span was = *s;
  free_spans::discard_descriptor(s);
  free_spans::insert(was.base, was.granules, false);
}

size_t purge_step_above(size_t floor, size_t wanted) {
  Span* chosen[os::kMostRanges];
  os::Range ranges[os::kMostRanges];
  size_t bytes = 0;
  size_t count = 0;
  // Again if all of them were refused: others may not be.
  do {
    count = send_into_transit(floor, least(wanted, kLongestStep), chosen, os::kMostRanges);
    if (count == 0) break;
    // Nobody else changes a span in transit.
    for (size_t i = 0; i < count; ++i) {
      ranges[i] = {reinterpret_cast<void*>(chosen[i]->base), free_spans::bytes_of(chosen[i])};
    }
    const uint64_t gone = os::discard_ranges(ranges, count);
    const os::Guard guard(lock);
    for (size_t i = 0; i < count; ++i) {
      const bool is_gone = (gone >> i & 1) != 0;
      if (is_gone) bytes += ranges[i].bytes;
      arrive(chosen[i], !is_gone);
    }
    limits::weigh(committed_locked());
  } while (bytes == 0);
  return bytes;
}

}  // namespace

size_t purge_step(size_t wanted) { return purge_step_above(0, wanted); }

size_t used_bytes() {
  // Acquire, as in initialise: another thread may be laying the window out.
  if (!initialised.load(memory_order_acquire)) return 0;
  return __atomic_load_n(&frontier, __ATOMIC_RELAXED) - window.heap.base;
}

size_t committed() {
  const os::Guard guard(lock);
  return committed_locked();
}

size_t purge(size_t keep) {
  size_t given_back = 0;
  for (;;) {
    const size_t dirty = dirty_bytes();
    const size_t step = dirty <= keep ? 0 : purge_step(dirty - keep);
    if (step == 0) return given_back;
    given_back += step;
  }
}

Totals totals() {
  return {dirty_bytes() + in_transit_bytes.get(),
          free_spans::refused_bytes.get(),
          free_spans::bytes[free_spans::kClean].get(),
          acquired_count.get(),
          released_count.get(),
          lock.acquisitions(),
          lock.waits()};
}

void prepare_fork() {
  lock.lock();
  metadata::prepare_fork();
}

void finish_fork(bool child) {
  metadata::finish_fork(child);
  if (child) {
    // Who was purging is not here to go on.
    while (!in_transit.empty()) {
      Span* s = in_transit.front();
      in_transit.remove(s);
      in_transit_bytes.add(-free_spans::bytes_of(s));
      free_spans::link(s);
    }
  }
  lock.after_fork(child);
}

}  // namespace span
}  // namespace loft
