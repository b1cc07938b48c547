#include "space/span.h"

#include <new>

#include "base/list.h"
#include "base/macros.h"
#include "base/options.h"
#include "os/fault.h"
#include "os/lock.h"
#include "space/free_spans.h"
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

// Between two steps of a purge, without the lock; in no bin. Counted as resident.
constexpr size_t kLongestStep = size_t{64} << 20;  // acquire may wait for one
constinit List<Span> in_transit;
constinit Counter in_transit_bytes;

constinit LowWater<kDecayTicks> least_dirty;
constinit Atomic<uint32_t> tick_count{0};

size_t dirty_bytes() { return free_spans::bytes[free_spans::kDirty].get(); }

bool advance_frontier(size_t bytes) {
  const uintptr_t target = frontier + bytes;
  if (target < frontier || !metadata::keep_room_for(target - window.heap.base) ||
      !window.heap.grow(target)) {
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
    Span* s = free_spans::longest_dirty();
    if (s == nullptr) break;
    const uintptr_t base = s->base;
    const size_t granules = s->granules;
    // Refused where the program has locked its memory: it asked for the pages to stay.
    s->refused = !os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
    if (s->refused) continue;
    free_spans::remove(s);
    free_spans::insert(base, granules, false);
    given_back += granules << kGranuleLog;
  }
  return given_back;
}

Range take_from(bool dirty, size_t granules) {
  Span* s = free_spans::find(dirty, granules);
  if (s == nullptr) return {};
  const Range range{s->base, !dirty};
  free_spans::take_front(s, granules);
  least_dirty.see(dirty_bytes());
  return range;
}

Range acquire_locked(size_t granules) {
  // Resident spans first: a page that is there costs no fault and no growth.
  for (const bool dirty : {true, false}) {
    if (const Range range = take_from(dirty, granules); range.base != 0) return range;
  }
  const uintptr_t base = frontier;
  if (advance_frontier(granules << kGranuleLog)) return {base, true};
  // Clean and dirty spans do not join: once all are clean, what is free is in its largest pieces,
  // and the last of them may need only a little more behind it.
  purge_locked(0);
  if (const Range range = take_from(false, granules); range.base != 0) return range;
  Span* last = free_spans::at(frontier - kGranule);
  if (last == nullptr || last->dirty) return {};
  if (!advance_frontier((granules - last->granules) << kGranuleLog)) return {};
  const Range range{last->base, true};
  free_spans::remove(last);
  return range;
}

}  // namespace

namespace {

// As above; what is on its way to the system comes back before anybody is told that there is no
// memory. Whoever sent it needs nothing but this lock for that.
Range acquire_patiently(size_t granules) {
  for (;;) {
    const Range range = acquire_locked(granules);
    if (range.base != 0 || in_transit.empty()) return range;
    lock.unlock();
    os::yield();
    lock.lock();
  }
}

}  // namespace

bool initialise() {
  // Acquire pairs with the release below: the pagemap is laid out.
  if (LOFT_LIKELY(initialised.load(memory_order_acquire))) return true;
  const os::Guard guard(lock);
  if (initialised.load(memory_order_relaxed)) return true;
  if (!open_window()) return false;
  pagemap.base = window.heap.base;
  pagemap.entries = reinterpret_cast<Entry*>(window.pagemap.base);
  pagemap.limit = (window.heap.end - window.heap.base) >> kAlignmentLog;
  __atomic_store_n(&frontier, window.heap.base, __ATOMIC_RELAXED);  // used_bytes
  initialised.store(true, memory_order_release);
  return true;
}

Range acquire(size_t granules, size_t alignment) {
  const os::Guard guard(lock);
  const size_t slack = alignment <= kGranule ? 0 : (alignment >> kGranuleLog) - 1;
  if (granules + slack > (window.heap.end - window.heap.base) >> kGranuleLog) return {};
  if (slack == 0) return acquire_patiently(granules);
  const Range wide = acquire_patiently(granules + slack);
  if (wide.base == 0) return {};
  const uintptr_t base = round_up(wide.base, alignment);
  const size_t head = (base - wide.base) >> kGranuleLog;
  if (head != 0) free_spans::insert(wide.base, head, !wide.zero);
  if (slack != head) free_spans::insert(base + (granules << kGranuleLog), slack - head, !wide.zero);
  return {base, wide.zero};
}

void release(uintptr_t base, size_t granules, bool dirty) {
  const os::Guard guard(lock);
  pagemap.fill(base, granules, Entry{});
  free_spans::insert(base, granules, dirty);
  const size_t keep = get(options.dirty_bytes);
  if (LOFT_UNLIKELY(dirty_bytes() > keep)) purge_locked(keep);
}

bool extend(uintptr_t end, size_t granules, bool& zero) {
  const os::Guard guard(lock);
  if (end == frontier) {
    return advance_frontier(granules << kGranuleLog);
  }
  Span* next = free_spans::at(end);
  if (next == nullptr || next->granules < granules) return false;
  zero = zero && !next->dirty;
  free_spans::take_front(next, granules);
  least_dirty.see(dirty_bytes());
  return true;
}

void release_moved(uintptr_t base, size_t granules) {
  if (os::renew(reinterpret_cast<void*>(base), granules << kGranuleLog)) {
    advise_huge_pages(base, granules << kGranuleLog);
    release(base, granules, false);
  } else {
    pagemap.fill(base, granules, Entry{});
  }
}

void release_target(uintptr_t base, size_t granules) {
  if (os::commit(reinterpret_cast<void*>(base), granules << kGranuleLog, false)) {
    advise_huge_pages(base, granules << kGranuleLog);
    release(base, granules, false);
  } else {
    pagemap.fill(base, granules, Entry{});
  }
}

uint32_t ticks() { return tick_count.load(memory_order_relaxed); }

size_t idle_bytes() {
  const os::Guard guard(lock);
  // Relaxed: who sees a tick late acts at the next one.
  tick_count.store(ticks() + 1, memory_order_relaxed);
  return least_dirty.tick(dirty_bytes());
}

namespace {

// Takes up to `wanted` bytes of long dirty spans out of the bins, as at most `most` spans.
size_t send_into_transit(size_t wanted, Span** chosen, size_t most_spans) {
  const os::Guard guard(lock);
  const size_t unit = get(options.thp) == kHugePrefer ? kHugePage : kGranule;
  const size_t dirty_before = dirty_bytes();
  size_t count = 0;
  for (size_t left = round_up(wanted, kGranule) >> kGranuleLog; left != 0 && count < most_spans;) {
    Span* longest = free_spans::longest_dirty();
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

// Refused where the program has locked its memory: it asked for the pages to stay. Such a span is
// not joined with its neighbours, which may go another time.
void arrive(Span* s, bool refused) {
  in_transit.remove(s);
  in_transit_bytes.add(-free_spans::bytes_of(s));
  if (refused) {
    s->refused = true;
    return free_spans::link(s);
  }
  const Span was = *s;
  free_spans::discard_descriptor(s);
  free_spans::insert(was.base, was.granules, false);
}

}  // namespace

size_t purge_step(size_t wanted) {
  Span* chosen[os::kMostRanges];
  os::Range ranges[os::kMostRanges];
  size_t bytes = 0;
  size_t count = 0;
  // Again if all of them were refused: others may not be.
  do {
    count = send_into_transit(least(wanted, kLongestStep), chosen, os::kMostRanges);
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
  } while (bytes == 0);
  return bytes;
}

size_t used_bytes() {
  // Acquire, as in initialise: another thread may be laying the window out.
  if (!initialised.load(memory_order_acquire)) return 0;
  return __atomic_load_n(&frontier, __ATOMIC_RELAXED) - window.heap.base;
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
  const os::Guard guard(lock);
  return {window.heap.committed - window.heap.base, dirty_bytes() + in_transit_bytes.get(),
          free_spans::bytes[free_spans::kClean].get(), lock.acquisitions()};
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
    lock.reset();
  } else {
    lock.unlock();
  }
}

}  // namespace span
}  // namespace loft
