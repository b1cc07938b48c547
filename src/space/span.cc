#include "space/span.h"

#include <new>

#include "base/macros.h"
#include "base/options.h"
#include "base/probe.h"
#include "os/fault.h"
#include "os/limits.h"
#include "os/lock.h"
#include "space/discards.h"
#include "space/free_spans.h"
#include "space/ledger.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/prefault.h"
#include "space/unused.h"
#include "space/window.h"

namespace loft::span::ledger {

constinit os::Lock lock;
constinit os::Lock purging;
constinit Counter in_transit_bytes;
constinit Counter ahead_bytes;
constinit Counter in_use;
constinit Atomic<size_t> recounted{0};
constinit LowWater<kDecayTicks> least_dirty;

size_t counted() {
  return used() + free_spans::dirty_bytes() + ahead_bytes.get() + in_transit_bytes.get();
}

size_t committed_locked() { return counted() + metadata::touched_bytes(); }

}  // namespace loft::span::ledger

namespace loft::span {

using free_spans::dirty_bytes;
using namespace ledger;

namespace {

constinit Atomic<bool> initialised{false};

constinit Counter acquired_count;
constinit Counter released_count;

constinit Atomic<uint32_t> tick_count{0};

// Whether `bytes` more may count. Resident free spans make way.
bool admit(size_t bytes) {
  const size_t limit = limits::hard();
  if (LOFT_LIKELY(limit == limits::kNone)) return true;
  if (bytes > limit) return false;
  const auto excess = [=] {
    const size_t now = committed_locked();
    return now > limit - bytes ? now - (limit - bytes) : 0;
  };
  if (LOFT_UNLIKELY(excess() != 0)) prefault::give_up();
  const size_t dirty = dirty_bytes();
  // If purging all of them would not suffice, they are of more use as they are.
  if (const size_t most = excess(); most != 0 && most <= dirty) free_spans::purge(dirty - most);
  return excess() == 0;
}

Range take_resident(size_t granules) {
  if (LOFT_UNLIKELY(committed_locked() > limits::hard())) return {};
  return search::take_from(free_spans::find(kDirty, granules), granules);
}

Range take_ahead(size_t bytes) {
  if (LOFT_UNLIKELY(committed_locked() > limits::hard())) return {};
  const uintptr_t base = prefault::take(bytes);
  return {base, false};
}

Range acquire_locked(size_t granules, size_t bytes, Want want) {
  if (want != Want::kClean && want != Want::kCleanOnly) {
    if (const Range range = take_resident(granules); range.base != 0) return range;
  }
  if (want == Want::kResidentOnly) return {};
  if (want == Want::kAhead) {
    if (const Range range = take_ahead(bytes); range.base != 0) return range;
    want = Want::kMixed;
  }
  if (!admit(bytes)) return {};
  for (const SpanState state : {kClean, kUnmapped}) {
    Span* s = free_spans::find(state, granules);
    if (const Range range = search::take_from(s, granules); range.base != 0) {
      unused::note_wanted(bytes);
      return range;
    }
  }
  if (want == Want::kMixed) {
    if (const Range range = search::take_in_two_parts(granules); range.base != 0) return range;
    if (const Range range = search::take_last_and_more(granules); range.base != 0) return range;
  }
  const uintptr_t base = frontier::advance(granules << kGranuleLog, false);
  if (base != 0) return {base, true};
  if (want == Want::kCleanOnly) return {};
  if (want == Want::kClean) return acquire_locked(granules, bytes, Want::kMixed);
  // The system refuses more addresses. With all that is free unmapped, none of it counts against a
  // limit, and free neighbours are one span, whatever purges have made of them before.
  prefault::give_up();
  free_spans::purge(0);
  free_spans::unmap_clean(0);
  for (const SpanState state : {kClean, kUnmapped}) {
    Span* s = free_spans::find_any(state, granules);
    if (const Range range = search::take_from(s, granules); range.base != 0) return range;
  }
  return search::take_last_and_more(granules);
}

// As acquire_locked, but reports no memory only after spans in transit have come back. The purge
// needs no other lock than `lock` for that. There is no priority inheritance: a thread of high
// priority sleeps until the purge is over, however long other threads keep the purge from running.
// A call of its own would cost a long object 30 instructions.
LOFT_ALWAYS_INLINE Range acquire_patiently(size_t granules, size_t bytes, Want want) {
  for (;;) {
    const Range range = acquire_locked(granules, bytes, want);
    if (range.base != 0 || in_transit_bytes.get() == 0) return range;
    if (want >= Want::kResidentOnly) return range;
    lock.unlock();
    purging.lock();
    purging.unlock();
    lock.lock();
  }
}

Range acquire_aligned(size_t granules, size_t alignment, size_t bytes, Want want) {
  const size_t slack = alignment <= kGranule ? 0 : (alignment >> kGranuleLog) - 1;
  if (granules + slack > (window.heap.end - window.heap.base) >> kGranuleLog) return {};
  if (slack == 0) return acquire_patiently(granules, bytes, want);
  // The parts cut off are released in the state in which they came.
  const Range wide = acquire_patiently(granules + slack, bytes, Want::kResident);
  if (wide.base == 0) return {};
  const uintptr_t base = round_up(wide.base, alignment);
  const size_t head = (base - wide.base) >> kGranuleLog;
  const SpanState state = wide.zero ? kClean : kDirty;
  if (head != 0) free_spans::insert(wide.base, head, state);
  if (slack != head) free_spans::insert(base + (granules << kGranuleLog), slack - head, state);
  return {base, wide.zero};
}

// Where all that is mapped counts, free memory that goes back makes room.
LOFT_COLD bool grants(size_t bytes) {
  if (os::has_memory_for(bytes)) return true;
  const size_t free = dirty_bytes();
  if (free == 0 || (free < bytes && !os::has_memory_for(bytes - free))) return false;
  purge(0);
  return os::has_memory_for(bytes);
}

void count_acquired(size_t spans, size_t bytes) {
  least_dirty.see(dirty_bytes());
  acquired_count.add(spans);
  in_use.add(bytes);
  limits::weigh(committed_locked());
}

}  // namespace

Range acquire_as(size_t granules, size_t alignment, size_t bytes, Want want) {
  if (LOFT_UNLIKELY(bytes >= kAskFrom) && !grants(bytes)) return {};
  Range range;
  {
    const os::Guard guard(lock);
    range = acquire_aligned(granules, alignment, bytes, want);
    count_acquired(range.base == 0 ? 0 : 1, range.base == 0 ? 0 : bytes);
  }
  unused::see();
  if (range.zero) unused::see_growth();
  return range;
}

namespace {

bool extend_locked(uintptr_t end, size_t granules) {
  if (end == frontier::end()) return frontier::advance(granules << kGranuleLog, true) != 0;
  Span* const next = free_spans::at(end);
  return next != nullptr && next->granules >= granules && free_spans::claim(next, granules);
}

}  // namespace

bool initialise() {
  // Acquire pairs with the release below: the pagemap is laid out.
  if (LOFT_LIKELY(initialised.load(memory_order_acquire))) return true;
  const os::Guard guard(lock);
  if (initialised.load(memory_order_relaxed)) return true;
  if (!open_window()) return false;
  pagemap.set_table(window.heap.base, reinterpret_cast<Entry*>(window.pagemap.base));
  pagemap.raise_limit(window.heap.committed);
  pagemap.serve_threads();
  frontier::begin();
  initialised.store(true, memory_order_release);
  return true;
}

void serve_nobody() {
  const os::Guard guard(lock);
  pagemap.serve_nobody();
}

void serve_processors() {
  const os::Guard guard(lock);
  pagemap.serve_processors();
}

void serve_operators() {
  const os::Guard guard(lock);
  pagemap.serve_operators();
}

namespace {

void release_all_left(const Returned* spans, unsigned count) {
  {
    const os::Guard guard(lock);
    for (unsigned i = 0; i < count; ++i) {
      free_spans::insert(spans[i].base, spans[i].granules, spans[i].dirty ? kDirty : kClean);
      in_use.add(-spans[i].bytes);
    }
    released_count.add(count);
    limits::weigh(committed_locked());
  }
  unused::see();
}

}  // namespace

void release_all(const Returned* spans, unsigned count) {
  for (unsigned i = 0; i < count; ++i) pagemap.fill(spans[i].base, spans[i].granules, Entry{});
  release_all_left(spans, count);
}

Range acquire_growing(size_t granules, size_t filled) {
  const size_t bytes = granules << kGranuleLog;
  const Want want = prefault::prepare(bytes, filled) ? Want::kAhead : Want::kMixed;
  return acquire_as(granules, kGranule, bytes, want);
}

namespace {

// Several, or none. Under the lock.
unsigned take_several(size_t granules, unsigned most, bool resident, Range* ranges) {
  const size_t all = most * granules;
  Range range = take_resident(all);
  if (range.base == 0 && !resident && dirty_bytes() == 0) {
    range = acquire_locked(all, all << kGranuleLog, Want::kCleanOnly);
  }
  unsigned count = 0;
  while (count != most) {
    ranges[count] = range.base == 0
                        ? take_resident(granules)
                        : Range{range.base + (count * granules << kGranuleLog), range.zero};
    if (ranges[count].base == 0) break;
    ++count;
  }
  return count;
}

}  // namespace

unsigned acquire_slabs(size_t granules, unsigned most, size_t filled, Range* ranges) {
  const size_t bytes = granules << kGranuleLog;
  const bool ahead = prefault::serves(filled);
  unsigned count = 0;
  if (!ahead || (most > 1 && dirty_bytes() >= bytes)) {
    const os::Guard guard(lock);
    if (most > 1) count = take_several(granules, most, ahead, ranges);
    if (count == 0 && !ahead) {
      ranges[0] = acquire_patiently(granules, bytes, Want::kMixed);
      count = ranges[0].base == 0 ? 0 : 1;
    }
    count_acquired(count, count * bytes);
  }
  if (count == 0 && ahead) {
    ranges[0] = acquire_growing(granules, filled);
    return ranges[0].base == 0 ? 0 : 1;
  }
  unused::see();
  if (count != 0 && ranges[0].zero) unused::see_growth();
  return count;
}

bool is_crowded() { return lock.has_sleepers(); }

void release(uintptr_t base, size_t granules, bool dirty, size_t bytes) {
  const Returned one = {base, granules, dirty, bytes};
  release_all(&one, 1);
}

void release_left(uintptr_t base, size_t granules, bool dirty, size_t bytes) {
  const Returned one = {base, granules, dirty, bytes};
  release_all_left(&one, 1);
}

bool extend(uintptr_t end, size_t granules) {
  const size_t bytes = granules << kGranuleLog;
  if (LOFT_UNLIKELY(bytes >= kAskFrom) && !grants(bytes)) return false;
  bool done = false;
  {
    const os::Guard guard(lock);
    done = admit(bytes) && extend_locked(end, granules);
    least_dirty.see(dirty_bytes());
    if (done) in_use.add(bytes);
    limits::weigh(committed_locked());
  }
  unused::see();
  return done;
}

bool recount(size_t from, size_t to) {
  if (to > from && limits::hard() != limits::kNone) {
    const os::Guard guard(lock);
    if (!admit(to - from)) return false;
    recounted.fetch_add(to - from, memory_order_relaxed);  // under the lock: before the next admit
    return true;
  }
  recounted.fetch_add(to - from, memory_order_relaxed);
  return true;
}

void release_moved(uintptr_t base, size_t granules, size_t bytes) {
  // Discards first, while the range certainly belongs to loft: if renew fails, only addresses are
  // lost.
  os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
  if (os::renew(reinterpret_cast<void*>(base), granules << kGranuleLog)) {
    advise_huge_pages(base, granules << kGranuleLog);
    release_left(base, granules, false, bytes);
  } else {
    recount(bytes, 0);
  }
}

void release_target(uintptr_t base, size_t granules, size_t moved, bool dirty, size_t bytes) {
  if (os::map_at(reinterpret_cast<void*>(base), moved) == os::Mapped::kYes) {
    advise_huge_pages(base, moved);
    release_left(base, granules, dirty, bytes);
  } else {
    recount(bytes, 0);
  }
}

uint32_t ticks() { return tick_count.load(memory_order_relaxed); }

size_t idle_bytes(unsigned passed) {
  const os::Guard guard(lock);
  // Relaxed: a thread that sees a tick late acts at the next one.
  tick_count.store(ticks() + passed, memory_order_relaxed);
  limits::weigh(committed_locked());  // the limits may have changed
  prefault::tick();
  for (unsigned tick = 0; tick < passed; ++tick) unused::tick();
  return least_dirty.tick(dirty_bytes(), used() / kPlentyShare, passed);
}

size_t used_bytes() {
  // Acquire, as in initialise: another thread may be laying the window out.
  if (!initialised.load(memory_order_acquire)) return 0;
  return frontier::end() - window.heap.base;
}

size_t counted() { return ledger::counted(); }

size_t committed() {
  const os::Guard guard(lock);
  return committed_locked();
}

size_t purge(size_t keep) {
  size_t purged = 0;
  {
    const os::Guard guard(lock);
    prefault::give_up();
  }
  for (;;) {
    const size_t dirty = dirty_bytes();
    const size_t step = dirty <= keep ? 0 : purge_step(dirty - keep);
    if (step == 0) break;
    purged += step;
  }
  if (keep == 0 || limits::scarce_dirty() != limits::kNone) {
    const os::Guard guard(lock);
    free_spans::unmap_clean(free_spans::kUnmapMin);
  }
  return purged;
}

SpanTotals totals() {
  return {dirty_bytes() + ahead_bytes.get() + in_transit_bytes.get(),
          free_spans::refused_bytes.get(),
          free_spans::bytes[kClean].get() + free_spans::bytes[kUnmapped].get(),
          acquired_count.get(),
          released_count.get(),
          lock.acquisitions(),
          lock.waits()};
}

void prepare_fork() {
  purging.lock();
  lock.lock();
  metadata::prepare_fork();
}

void finish_fork(bool child) {
  metadata::finish_fork(child);
  lock.after_fork(child);
  purging.after_fork(child);
}

// Purges of resident free spans, without the lock of the spans during the system calls.

namespace {

constexpr size_t kLongestStep = size_t{64} << 20;   // of a purge; acquire may wait for a step
constexpr unsigned kMostInTransit = kMostDiscards;  // spans

// Takes up to `wanted` bytes of long dirty spans out of the lists.
unsigned send_into_transit(size_t wanted, Span** chosen) {
  const os::Guard guard(lock);
  const size_t unit = get(options.thp) == kHugePrefer ? kHugePage : kGranule;
  const size_t dirty_before = dirty_bytes();
  wanted = least(wanted, dirty_before - free_spans::refused_bytes.get());
  unsigned count = 0;
  size_t left = round_up(wanted, kGranule) >> kGranuleLog;
  while (left != 0 && count < kMostInTransit) {
    Span* longest = free_spans::longest(kDirty);
    if (longest == nullptr) break;
    // In transit first: the sum that totals() reads without the lock never lacks them.
    const size_t all = free_spans::bytes_of(longest);
    in_transit_bytes.add(all);
    Span* s = free_spans::take_part_to_purge(longest, left, unit);
    in_transit_bytes.add((s == nullptr ? 0 : free_spans::bytes_of(s)) - all);
    if (s == nullptr) break;
    left -= least(left, s->granules);
    chosen[count++] = s;
  }
  // The bytes in transit count as the idle ones.
  least_dirty.take(dirty_before - dirty_bytes());
  return count;
}

// Returns the bytes purged.
size_t arrive(Span* s, SpanState state) {
  const Span was = *s;
  in_transit_bytes.add(-free_spans::bytes_of(s));
  if (state == kDirty) {
    free_spans::link_refused(s);
    return 0;
  }
  free_spans::discard_descriptor(s);
  free_spans::insert(was.base, was.granules, state);
  return free_spans::bytes_of(&was);
}

}  // namespace

size_t purge_step(size_t wanted) {
  Span* chosen[kMostInTransit];
  SpanState states[kMostInTransit];
  size_t bytes = 0;
  unsigned count = 0;
  const os::Guard guard(purging);
  // Repeats if the system refused all of them: it may take others.
  do {
    count = send_into_transit(least(wanted, kLongestStep), chosen);
    // Without `lock`: nobody else changes a span in transit.
    free_spans::purge_pages(chosen, count, states);
    const os::Guard arrival(lock);
    for (unsigned i = 0; i < count; ++i) bytes += arrive(chosen[i], states[i]);
    limits::weigh(committed_locked());
  } while (bytes == 0 && count != 0);
  LOFT_PROBE1(loft, purge, bytes);
  return bytes;
}

}  // namespace loft::span
