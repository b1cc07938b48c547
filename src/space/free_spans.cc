#include "space/free_spans.h"

#include <new>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/list.h"
#include "os/os.h"
#include "space/discards.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/window.h"

namespace loft::free_spans {

constinit Counter bytes[kSpanStates];
constinit Counter refused_bytes;
constinit Counter unmapped_spans;

namespace {

constinit SpanBins bins[kSpanStates];

void name_ends(const Span* s, Entry entry) {
  pagemap.fill(s->base, 1, entry);
  pagemap.fill(s->base + bytes_of(s) - kGranule, 1, entry);
}

void unlink(Span* s) {
  bins[s->state].remove(s);
  bytes[s->state].add(-bytes_of(s));
  if (s->refused) refused_bytes.add(-bytes_of(s));
  if (s->state == kUnmapped) unmapped_spans.add(-1UL);
  name_ends(s, Entry{});
}

// Unused descriptors, linked by `next`. Spans split and join all the time, and the lock of the list
// is held anyway.
constinit Span* spare = nullptr;

Span* new_descriptor() {
  if (spare == nullptr) return static_cast<Span*>(metadata::allocate(sizeof(Span)));
  Span* descriptor = spare;
  spare = descriptor->next;
  return descriptor;
}

// Cuts a span that is in no bin behind its first `granules`. Returns the rest; nullptr without
// memory.
Span* cut(Span* s, size_t granules) {
  void* block = new_descriptor();
  if (block == nullptr) return nullptr;
  const uintptr_t base = s->base + (granules << kGranuleLog);
  auto* rest = new (block) Span{base, s->granules - granules, s->state, nullptr, nullptr, false};
  s->granules = granules;
  return rest;
}

}  // namespace

Span* at(uintptr_t address) {
  const void* p = reinterpret_cast<const void*>(address);
  if (!pagemap.contains(p)) return nullptr;
  const Entry e = pagemap.of(p);
  return e.bin() == kFreeSpan ? metadata::at_index<Span>(e.index()) : nullptr;
}

Span* find(SpanState state, size_t granules) { return bins[state].find(granules); }

Span* find_any(SpanState state, size_t granules) {
  return bins[state].find_any(granules, [=](Span* s) { return s->granules >= granules; });
}

Span* longest(SpanState state) { return bins[state].longest(); }

void link(Span* s) {
  bins[s->state].insert(s);
  bytes[s->state].add(bytes_of(s));
  if (s->refused) refused_bytes.add(bytes_of(s));
  if (s->state == kUnmapped) unmapped_spans.add(1);
  name_ends(s, Entry(kNoHeap, kFreeSpan, metadata::index_of(s)));
}

void remove(Span* s) {
  unlink(s);
  discard_descriptor(s);
}

void link_refused(Span* s) {
  s->refused = true;
  const auto was_refused = [](const Span* other) { return other != nullptr && other->refused; };
  if (Span* before = at(s->base - kGranule); was_refused(before)) {
    s->base = before->base;
    s->granules += before->granules;
    remove(before);
  }
  if (Span* after = at(s->base + bytes_of(s)); was_refused(after)) {
    s->granules += after->granules;
    remove(after);
  }
  link(s);
}

void discard_descriptor(Span* s) {
  s->next = spare;
  spare = s;
}

namespace {

// As many granules as have a page of the pagemap, so that what goes back is worth the system call.
constexpr size_t kForgetMin = 4096 / kPagemapEntry;

// What [base, end) adds to a free span has no entries any more, except at the span's ends. Pages of
// the table that reach beyond it may hold entries of what was added before.
void forget_around(const Span* s, uintptr_t base, uintptr_t end) {
  const size_t reach = (os::page_size() / kPagemapEntry) << kGranuleLog;
  const uintptr_t first = s->base + kGranule;
  const uintptr_t last = s->base + bytes_of(s) - kGranule;
  pagemap.forget(most(first, base - least(base - s->base, reach)),
                 least(last, end + least(s->base + bytes_of(s) - end, reach)));
}

}  // namespace

void insert(uintptr_t base, size_t granules, SpanState state) {
  const uintptr_t end = base + (granules << kGranuleLog);
  Span* joined = nullptr;
  if (Span* before = at(base - kGranule); before != nullptr && before->state == state) {
    unlink(before);
    before->granules += granules;
    before->refused = false;
    joined = before;
  }
  if (Span* after = at(end); after != nullptr && after->state == state) {
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
      if (state == kDirty) os::discard(reinterpret_cast<void*>(base), granules << kGranuleLog);
      return;
    }
    joined = new (block) Span{base, granules, state, nullptr, nullptr, false};
  }
  link(joined);
  if (state == kUnmapped && granules >= kForgetMin) forget_around(joined, base, end);
}

void take_front(Span* s, size_t granules) {
  if (s->granules == granules) return remove(s);
  unlink(s);
  s->base += granules << kGranuleLog;
  s->granules -= granules;
  link(s);
}

bool claim(Span* s, size_t granules) {
  if (s->state == kUnmapped) {
    const uintptr_t base = s->base;
    const os::Mapped mapped = os::map_at(reinterpret_cast<void*>(base), granules << kGranuleLog);
    if (mapped == os::Mapped::kOccupied) take_front(s, granules);
    if (mapped != os::Mapped::kYes) return false;
    advise_huge_pages(base, granules << kGranuleLog);
  }
  take_front(s, granules);
  return true;
}

void put_back(uintptr_t base, size_t granules, SpanState state) {
  insert(base, granules, state == kUnmapped ? kClean : state);
}

namespace {

// Each unmapped span may add a mapping; the system allows a process some 65 000.
constexpr size_t kMostUnmapped = 8192;

bool unmap(uintptr_t base, size_t length) {
  if (unmapped_spans.get() >= kMostUnmapped) return false;
  split_at_ends(base, length);
  return os::unmap(reinterpret_cast<void*>(base), length);
}

}  // namespace

void unmap_clean(size_t shortest) {
  for (Span* s = longest(kClean); s != nullptr && bytes_of(s) >= shortest; s = longest(kClean)) {
    const Span was = *s;
    if (!unmap(was.base, bytes_of(&was))) return;
    remove(s);
    insert(was.base, was.granules, kUnmapped);
  }
}

void purge_pages(Span* const* spans, unsigned count, SpanState* states) {
  uint8_t short_ones[kMostDiscards];
  unsigned left = 0;
  for (unsigned i = 0; i < count; ++i) {
    const size_t length = bytes_of(spans[i]);
    states[i] = kUnmapped;
    if (length < kUnmapMin || !unmap(spans[i]->base, length)) {
      short_ones[left++] = static_cast<uint8_t>(i);
    }
  }
  const uint64_t done = discard_all(left, [&](unsigned i) {
    const Span* s = spans[short_ones[i]];
    return Discard{s->base, bytes_of(s)};
  });
  for (unsigned i = 0; i < left; ++i) {
    const Span* s = spans[short_ones[i]];
    // The system does not discard locked pages, but it does unmap them.
    const bool gone = (done >> i & 1) != 0;
    states[short_ones[i]] = gone ? kClean : unmap(s->base, bytes_of(s)) ? kUnmapped : kDirty;
  }
}

size_t purge(size_t keep) {
  size_t purged = 0;
  while (dirty_bytes() > keep) {
    Span* s = longest(kDirty);
    if (s == nullptr) break;
    const uintptr_t base = s->base;
    const size_t granules = s->granules;
    SpanState state = kDirty;
    purge_pages(&s, 1, &state);
    s->refused = state == kDirty;
    if (s->refused) {
      refused_bytes.add(bytes_of(s));
      continue;
    }
    remove(s);
    insert(base, granules, state);
    purged += granules << kGranuleLog;
  }
  return purged;
}

Span* take_part_to_purge(Span* s, size_t most_granules, size_t unit) {
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

}  // namespace loft::free_spans

namespace loft::frontier {

namespace {

// Relaxed: readers without the lock only count bytes.
constinit Atomic<uintptr_t> frontier{0};
constinit size_t passed_over = 0;  // bytes below the frontier in other mappings

constexpr size_t kLongStep = size_t{64} << 20;

void set(uintptr_t address) { frontier.store(address, memory_order_relaxed); }

}  // namespace

void begin() { set(window.heap.base); }

uintptr_t end() { return frontier.load(memory_order_relaxed); }

uintptr_t advance(size_t bytes, bool next_to_last) {
  if (bytes > window.heap.end - end()) return 0;
  // Metadata keeps its growth, even if the step then fails, and its share of a long step is large.
  // So a long step first asks whether the system has room for all of it: a refused step must not
  // leave less room for other requests.
  if (bytes > kLongStep && !os::has_room_for(bytes + bytes / kMetadataShare)) return 0;
  if (!metadata::keep_room_for(end() + bytes - window.heap.base - passed_over)) return 0;
  const uintptr_t rest_end = window.heap.committed;
  const HeapStep step = grow_heap(end(), bytes);
  if (step.base == 0) return 0;
  pagemap.raise_limit(window.heap.committed);
  if (step.moved) {
    passed_over += step.base - rest_end;
    if (rest_end != end()) {
      free_spans::insert(end(), (rest_end - end()) >> kGranuleLog, kClean);
    }
  }
  const bool wanted = !step.moved || !next_to_last;
  set(wanted ? step.base + bytes : step.base);
  return wanted ? step.base : 0;
}

}  // namespace loft::frontier

namespace loft::search {

Range take_from(Span* s, size_t granules) {
  if (s == nullptr) return {};
  const Range range{s->base, s->state != kDirty};
  return free_spans::claim(s, granules) ? range : Range{};
}

namespace {

// Takes granules from two listed spans; `second` begins where `first` ends.
Range take_from_both(Span* first, Span* second, size_t granules) {
  if (first == nullptr || second == nullptr) return {};
  if (first->granules >= granules) return take_from(first, granules);
  if (first->granules + second->granules < granules) return {};
  const Range range{first->base, first->state != kDirty && second->state != kDirty};
  const Span part = *second;
  const size_t count = granules - first->granules;
  if (!free_spans::claim(second, count)) return {};
  if (free_spans::claim(first, first->granules)) return range;
  free_spans::put_back(part.base, count, part.state);
  return {};
}

}  // namespace

Range take_in_two_parts(size_t granules) {
  for (const SpanState state : {kDirty, kClean, kUnmapped}) {
    Span* s = free_spans::longest(state);
    if (s == nullptr) continue;
    const uintptr_t base = s->base;
    Span* before = free_spans::at(base - kGranule);
    Span* behind = free_spans::at(base + free_spans::bytes_of(s));
    if (const Range range = take_from_both(s, behind, granules); range.base != 0) return range;
    // The failed attempt may have lost the addresses of s. Its descriptor may already be another
    // span's.
    if (before == nullptr || free_spans::at(base) != s) continue;
    if (const Range range = take_from_both(before, s, granules); range.base != 0) return range;
  }
  return {};
}

Range take_last_and_more(size_t granules) {
  Span* last = free_spans::at(frontier::end() - kGranule);
  if (last == nullptr) return {};
  if (last->granules >= granules) return take_from(last, granules);
  Span* before = free_spans::at(last->base - kGranule);
  const size_t free = last->granules + (before == nullptr ? 0 : before->granules);
  if (free >= granules) return take_from_both(before, last, granules);
  const Span was = *last;
  const uintptr_t more = frontier::advance((granules - free) << kGranuleLog, true);
  if (more == 0) return {};
  const bool zero = was.state != kDirty && (before == nullptr || before->state != kDirty);
  const Range range{before == nullptr ? was.base : before->base, zero};
  if (free_spans::claim(last, was.granules)) {
    if (before == nullptr || free_spans::claim(before, before->granules)) return range;
    free_spans::put_back(was.base, was.granules, was.state);
  }
  free_spans::insert(more, granules - free, kClean);
  return {};
}

}  // namespace loft::search
