#include "space/span.h"

#include <new>

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
    joined = before;
  }
  if (Span* after = free_span_at(end); after != nullptr && after->dirty == dirty) {
    unlink(after);
    if (joined == nullptr) {
      after->base = base;
      after->granules += granules;
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
    joined = new (block) Span{base, granules, dirty, nullptr, nullptr};
  }
  link(joined);
}

// Cuts `granules` off the front of a listed span, whose rest stays listed.
void take_front(Span* s, size_t granules) {
  unlink(s);
  if (s->granules == granules) {
    discard_descriptor(s);
    return;
  }
  s->base += granules << kGranuleLog;
  s->granules -= granules;
  link(s);
}

bool advance_frontier(size_t bytes) {
  const uintptr_t target = frontier + bytes;
  if (target < frontier || !window.heap.grow(target)) return false;
  const size_t entries = (window.heap.committed - window.heap.base) >> kGranuleLog;
  if (!window.pagemap.grow(window.pagemap.base + entries * sizeof(Entry))) return false;
  frontier = target;
  return true;
}

size_t purge_locked(size_t keep) {
  size_t given_back = 0;
  while (free_bytes[true].get() > keep) {
    Span* s = bins[true].longest();
    const uintptr_t base = s->base;
    const size_t granules = s->granules;
    // Refused where the program has locked its memory: it asked for the pages to stay.
    if (!os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog)) break;
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

bool initialise() {
  // Acquire pairs with the release below: the pagemap is laid out.
  if (LOFT_LIKELY(initialised.load(memory_order_acquire))) return true;
  const os::Guard guard(lock);
  if (initialised.load(memory_order_relaxed)) return true;
  if (!open_window()) return false;
  pagemap.base = window.heap.base;
  pagemap.entries = reinterpret_cast<Entry*>(window.pagemap.base);
  pagemap.limit = (window.heap.end - window.heap.base) >> kAlignmentLog;
  frontier = window.heap.base;
  initialised.store(true, memory_order_release);
  return true;
}

Range acquire(size_t granules, size_t alignment) {
  const os::Guard guard(lock);
  const size_t slack = alignment <= kGranule ? 0 : (alignment >> kGranuleLog) - 1;
  if (granules + slack > (window.heap.end - window.heap.base) >> kGranuleLog) return {};
  if (slack == 0) return acquire_locked(granules);
  const Range wide = acquire_locked(granules + slack);
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
    release(base, granules, false);
  } else {
    pagemap.fill(base, granules, Entry{});
  }
}

void release_target(uintptr_t base, size_t granules) {
  if (os::commit(reinterpret_cast<void*>(base), granules << kGranuleLog, false)) {
    release(base, granules, false);
  } else {
    pagemap.fill(base, granules, Entry{});
  }
}

size_t purge(size_t keep) {
  const os::Guard guard(lock);
  return purge_locked(keep);
}

Totals totals() {
  const os::Guard guard(lock);
  return {window.heap.committed - window.heap.base, free_bytes[true].get(), free_bytes[false].get(),
          lock.acquisitions()};
}

void prepare_fork() {
  lock.lock();
  metadata::prepare_fork();
}

void finish_fork(bool child) {
  metadata::finish_fork(child);
  if (child) {
    lock.reset();
  } else {
    lock.unlock();
  }
}

}  // namespace span
}  // namespace loft
