#include "space/free_spans.h"

#include <new>

#include "base/bits.h"
#include "base/list.h"
#include "os/os.h"
#include "space/metadata.h"
#include "space/pagemap.h"

namespace loft::free_spans {

constinit Counter bytes[2];
constinit Counter refused_bytes;

namespace {

constinit SpanBins bins[2];

void name_ends(const Span* s, Entry entry) {
  pagemap.fill(s->base, 1, entry);
  pagemap.fill(s->base + bytes_of(s) - kGranule, 1, entry);
}

void unlink(Span* s) {
  bins[s->dirty].remove(s);
  bytes[s->dirty].add(-bytes_of(s));
  if (s->refused) refused_bytes.add(-bytes_of(s));
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

}  // namespace

Span* at(uintptr_t address) {
  const void* p = reinterpret_cast<const void*>(address);
  if (!pagemap.contains(p)) return nullptr;
  const Entry e = pagemap.of(p);
  return e.bin() == kFreeSpan ? metadata::at_index<Span>(e.index()) : nullptr;
}

Span* find(bool dirty, size_t granules) { return bins[dirty].find(granules); }

Span* find_any(bool dirty, size_t granules) {
  return bins[dirty].find_any(granules, [=](Span* s) { return s->granules >= granules; });
}

Span* longest(bool dirty) { return bins[dirty].longest(); }

void link(Span* s) {
  bins[s->dirty].insert(s);
  bytes[s->dirty].add(bytes_of(s));
  if (s->refused) refused_bytes.add(bytes_of(s));
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

void insert(uintptr_t base, size_t granules, bool dirty) {
  const uintptr_t end = base + (granules << kGranuleLog);
  Span* joined = nullptr;
  if (Span* before = at(base - kGranule); before != nullptr && before->dirty == dirty) {
    unlink(before);
    before->granules += granules;
    before->refused = false;
    joined = before;
  }
  if (Span* after = at(end); after != nullptr && after->dirty == dirty) {
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

void take_front(Span* s, size_t granules) {
  if (s->granules == granules) return remove(s);
  unlink(s);
  s->base += granules << kGranuleLog;
  s->granules -= granules;
  link(s);
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
