#include "space/span.h"

#include <new>

#include "base/list.h"
#include "base/macros.h"
#include "base/options.h"
#include "os/fault.h"
#include "os/lock.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span_bins.h"
#include "space/window.h"

namespace loft {

constinit Pagemap pagemap;

namespace span {

namespace {

constinit os::Lock lock;
constinit Atomic<bool> initialised{false};

// Granules at and above the frontier were never handed out.
constinit uintptr_t frontier = 0;

// Invariant: no two free spans of one kind touch; free_bytes[k] is the sum over bins[k].
constinit SpanBins bins[2];  // clean, dirty
constinit Counter free_bytes[2];

// Between two steps of a purge, without the lock; in no bin. Counted as resident.
constexpr size_t kLongestStep = size_t{64} << 20;  // acquire may wait for one
constinit List<Span> in_transit;
constinit Counter in_transit_bytes;

// The least that free_bytes[true] was since the last tick, and in each of those before it.
constinit size_t least_dirty = 0;
constinit size_t least_dirty_in[kDecayTicks] = {};
constinit unsigned this_tick = 0;
constinit Atomic<uint32_t> tick_count{0};

size_t bytes_of(const Span* s) { return s->granules << kGranuleLog; }

Span* free_span_at(uintptr_t address) {
  const void* p = reinterpret_cast<const void*>(address);
  if (!pagemap.contains(p)) return nullptr;
  const Entry e = pagemap.of(p).shared_load();
  return e.bin() == kFreeSpan ? metadata::at_index<Span>(e.index()) : nullptr;
}

void name_ends(const Span* s, Entry entry) {
  pagemap.fill(s->base, 1, entry);
  pagemap.fill(s->base + bytes_of(s) - kGranule, 1, entry);
}

void link(Span* s) {
  bins[s->dirty].insert(s);
  free_bytes[s->dirty].add(bytes_of(s));
  name_ends(s, Entry(kNoHeap, kFreeSpan, metadata::index_of(s)));
}

void unlink(Span* s) {
  bins[s->dirty].remove(s);
  free_bytes[s->dirty].add(-bytes_of(s));
  name_ends(s, Entry{});
}

// Descriptors not in use, linked by `next`: spans split and join all the time, and this lock is
// held anyway.
constinit Span* spare = nullptr;

Span* new_descriptor() {
  if (spare == nullptr) return static_cast<Span*>(metadata::allocate(sizeof(Span)));
  Span* descriptor = spare;
  spare = descriptor->next;
  return descriptor;
}

void discard_descriptor(Span* s) {
  s->next = spare;
  spare = s;
}

// Lists [base, base + granules) as free, joined with free neighbours of its kind. Without memory
// for a descriptor the granules are lost to the window; a dirty range gives its pages back first.
void insert(uintptr_t base, size_t granules, bool dirty) {
  const uintptr_t end = base + (granules << kGranuleLog);
  Span* joined = nullptr;
  if (Span* before = free_span_at(base - kGranule); before != nullptr && before->dirty == dirty) {
    unlink(before);
    before->granules += granules;
    before->refused = false;
    joined = before;
  }
  if (Span* after = free_span_at(end); after != nullptr && after->dirty == dirty) {
    unlink(after);
    if (joined == nullptr) {
      after->base = base;
      after->granules += granules;
      after->refused = false;
      joined = after;
    } else {
      joined->granules += after->granules;
      discard_descriptor(after);
    }
  }
  if (joined == nullptr) {
    void* block = new_descriptor();
    if (block == nullptr) {
      if (dirty) os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
      return;
    }
    joined = new (block) Span{base, granules, dirty, nullptr, nullptr, false};
  }
  link(joined);
}

// Cuts `granules` off the front of a listed span, whose rest stays listed.
void take_front(Span* s, size_t granules) {
  unlink(s);
  if (s->granules == granules) {
    discard_descriptor(s);
  } else {
    s->base += granules << kGranuleLog;
    s->granules -= granules;
    link(s);
  }
  least_dirty = least(least_dirty, size_t{free_bytes[true].get()});
}

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
  while (free_bytes[true].get() > keep) {
    Span* s = bins[true].longest();
    if (s == nullptr) break;
    const uintptr_t base = s->base;
    const size_t granules = s->granules;
    // Refused where the program has locked its memory: it asked for the pages to stay.
    s->refused = !os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
    if (s->refused) continue;
    unlink(s);
    discard_descriptor(s);
    insert(base, granules, false);
    given_back += granules << kGranuleLog;
  }
  return given_back;
}

Range acquire_locked(size_t granules) {
  // Resident spans first: a page that is there costs no fault and no growth.
  for (const bool dirty : {true, false}) {
    if (Span* s = bins[dirty].find(granules); s != nullptr) {
      const Range range{s->base, !dirty};
      take_front(s, granules);
      return range;
    }
  }
  const uintptr_t base = frontier;
  if (advance_frontier(granules << kGranuleLog)) return {base, true};
  // Clean and dirty spans do not join: once all are clean, what is free is in its largest pieces,
  // and the last of them may need only a little more behind it.
  purge_locked(0);
  if (Span* s = bins[false].find(granules); s != nullptr) {
    const Range range{s->base, true};
    take_front(s, granules);
    return range;
  }
  Span* last = free_span_at(frontier - kGranule);
  if (last == nullptr || last->dirty) return {};
  if (!advance_frontier((granules - last->granules) << kGranuleLog)) return {};
  const Range range{last->base, true};
  unlink(last);
  discard_descriptor(last);
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
  if (head != 0) insert(wide.base, head, !wide.zero);
  if (slack != head) insert(base + (granules << kGranuleLog), slack - head, !wide.zero);
  return {base, wide.zero};
}

void release(uintptr_t base, size_t granules, bool dirty) {
  const os::Guard guard(lock);
  pagemap.fill(base, granules, Entry{});
  insert(base, granules, dirty);
  const size_t keep = get(options.dirty_bytes);
  if (LOFT_UNLIKELY(free_bytes[true].get() > keep)) purge_locked(keep);
}

bool extend(uintptr_t end, size_t granules, bool& zero) {
  const os::Guard guard(lock);
  if (end == frontier) {
    return advance_frontier(granules << kGranuleLog);
  }
  Span* next = free_span_at(end);
  if (next == nullptr || next->granules < granules) return false;
  zero = zero && !next->dirty;
  take_front(next, granules);
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
  least_dirty_in[this_tick] = least_dirty;
  this_tick = (this_tick + 1) % kDecayTicks;
  least_dirty = free_bytes[true].get();
  size_t idle = least_dirty;
  for (const size_t bytes : least_dirty_in) idle = least(idle, bytes);
  return idle;
}

namespace {

// Cuts the span, which is in no bin, behind its first `granules`; the rest is returned, or nullptr
// without memory.
Span* cut(Span* s, size_t granules) {
  void* block = new_descriptor();
  if (block == nullptr) return nullptr;
  const uintptr_t base = s->base + (granules << kGranuleLog);
  auto* rest = new (block) Span{base, s->granules - granules, s->dirty, nullptr, nullptr, false};
  s->granules = granules;
  return rest;
}

// The part of a span, taken from its bin, that a purge of up to `most` granules gives back: its
// end, because the beginnings of spans are used first; in whole units. The rest stays in the bins.
// nullptr if it has no whole unit.
Span* part_to_purge(Span* s, size_t most_granules, size_t unit) {
  const uintptr_t end = round_down(s->base + bytes_of(s), unit);
  const uintptr_t first = round_up(s->base, unit);
  if (first >= end) return nullptr;
  const uintptr_t begin = most(first, end - round_up(most_granules << kGranuleLog, unit));
  unlink(s);
  if (end != s->base + bytes_of(s)) {
    Span* behind = cut(s, (end - s->base) >> kGranuleLog);
    if (behind != nullptr) link(behind);
  }
  if (begin == s->base) return s;
  Span* part = cut(s, (begin - s->base) >> kGranuleLog);
  if (part == nullptr) return s;
  link(s);
  return part;
}

// Takes up to `wanted` bytes of long dirty spans out of the bins, as at most `most` spans.
size_t send_into_transit(size_t wanted, Span** chosen, size_t most_spans) {
  const os::Guard guard(lock);
  const size_t unit = get(options.thp) == kHugePrefer ? kHugePage : kGranule;
  const size_t dirty_before = free_bytes[true].get();
  size_t count = 0;
  for (size_t left = round_up(wanted, kGranule) >> kGranuleLog; left != 0 && count < most_spans;) {
    Span* longest = bins[true].longest();
    Span* s = longest == nullptr ? nullptr : part_to_purge(longest, left, unit);
    if (s == nullptr) break;
    in_transit.push_front(s);
    in_transit_bytes.add(bytes_of(s));
    left -= least(left, s->granules);
    chosen[count++] = s;
  }
  // What goes was the idle part.
  const size_t taken = dirty_before - free_bytes[true].get();
  for (size_t& bytes : least_dirty_in) bytes -= least(bytes, taken);
  least_dirty -= least(least_dirty, taken);
  return count;
}

// Refused where the program has locked its memory: it asked for the pages to stay. Such a span is
// not joined with its neighbours, which may go another time.
void arrive(Span* s, bool refused) {
  in_transit.remove(s);
  in_transit_bytes.add(-bytes_of(s));
  if (refused) {
    s->refused = true;
    return link(s);
  }
  const Span was = *s;
  discard_descriptor(s);
  insert(was.base, was.granules, false);
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
      ranges[i] = {reinterpret_cast<void*>(chosen[i]->base), bytes_of(chosen[i])};
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
    const size_t dirty = free_bytes[true].get();
    const size_t step = dirty <= keep ? 0 : purge_step(dirty - keep);
    if (step == 0) return given_back;
    given_back += step;
  }
}

Totals totals() {
  const os::Guard guard(lock);
  return {window.heap.committed - window.heap.base, free_bytes[true].get() + in_transit_bytes.get(),
          free_bytes[false].get(), lock.acquisitions()};
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
      in_transit_bytes.add(-bytes_of(s));
      link(s);
    }
    lock.reset();
  } else {
    lock.unlock();
  }
}

}  // namespace span
}  // namespace loft
