#include "space/search.h"

#include "space/free_spans.h"
#include "space/frontier.h"

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
