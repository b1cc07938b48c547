// Purges of resident free spans, without the lock of the spans during the system calls.
#include "base/options.h"
#include "base/probe.h"
#include "limits/limits.h"
#include "space/discards.h"
#include "space/free_spans.h"
#include "space/ledger.h"
#include "space/span.h"

namespace loft::span {

using free_spans::dirty_bytes;
using namespace ledger;

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
