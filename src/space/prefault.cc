#include "space/prefault.h"

#include "base/bits.h"
#include "base/options.h"
#include "os/limits.h"
#include "os/os.h"
#include "space/discards.h"
#include "space/free_spans.h"
#include "space/ledger.h"
#include "space/unused.h"

namespace loft::prefault {

namespace {

namespace ledger = span::ledger;
using ledger::ahead_bytes;

// What is ahead is at most this share of what is in use, or nothing where that is less than a slab.
// It is memory that a program may never use, and a program that is small feels it. A large one gets
// one huge page.
constexpr size_t kShare = 32;
constexpr size_t kLarge = size_t{64} << 20;
constexpr size_t kShareOfLarge = 8;
// The last slab of a class may stay empty for the most part. So a class has filled this much, and
// no less than this share of what is in use: of such classes, over all heaps, there are
// kFilledShare at most.
constexpr size_t kLeastFilled = size_t{256} << 10;
constexpr size_t kFilledShare = 64;
// Of the free memory that may stay resident, at most this share is ahead.
constexpr size_t kDirtyShare = 8;
// Free memory without pages is used up first if it is more than this share of what is in use.
constexpr size_t kCleanShare = 8;

constinit uintptr_t base = 0;    // of what is ahead
constinit bool taken = false;    // since the last tick
constinit bool is_full = false;  // the window could not grow since then

// The system has refused to populate. Relaxed: a thread that sees it late asks once more.
constinit Atomic<bool> is_refused{false};

// How many bytes to populate now; 0 if none.
size_t next_step(size_t needed) {
  const size_t used = ledger::used();
  if (limits::tight() || is_full) return 0;
  const size_t share = used / (used < kLarge ? kShare : kShareOfLarge);
  const size_t longest = least(share, unused::bound() / kDirtyShare);
  if (longest < needed) return 0;
  const size_t step = least(kHugePage, size_t{1} << highest_bit(longest));
  const size_t limit = limits::soft();
  return step <= limit && ledger::committed_locked() <= limit - step ? step : 0;
}

// The gap up to the next multiple of `alignment` stays a clean span, for shorter needs.
span::Range cut(uintptr_t from, size_t length, size_t step, size_t alignment) {
  const uintptr_t begin = round_up(from, alignment);
  const uintptr_t end = from + length;
  const bool fits = begin + step <= end;
  const uintptr_t head_end = fits ? begin : end;
  if (head_end != from) free_spans::insert(from, (head_end - from) >> kGranuleLog, kClean);
  if (!fits) return {};
  const size_t rest = end - (begin + step);
  if (rest != 0) free_spans::insert(begin + step, rest >> kGranuleLog, kClean);
  return {begin, true};
}

// Granules without memory: a huge page takes the place of pages that were never touched.
span::Range find(size_t& step, size_t needed) {
  const size_t alignment = step == kHugePage ? kHugePage : kGranule;
  const size_t wide = step + alignment - kGranule;
  for (const SpanState state : {kClean, kUnmapped}) {
    Span* s = free_spans::find(state, wide >> kGranuleLog);
    const span::Range range = search::take_from(s, wide >> kGranuleLog);
    if (range.base != 0) return cut(range.base, wide, step, alignment);
  }
  // Pieces are used up before more addresses are taken.
  const size_t clean = free_spans::bytes[kClean].get() + free_spans::bytes[kUnmapped].get();
  if (clean > ledger::used() / kCleanShare) {
    for (const SpanState state : {kClean, kUnmapped}) {
      Span* s = free_spans::longest(state);
      if (s == nullptr || free_spans::bytes_of(s) < needed) continue;
      const size_t length = least(step, free_spans::bytes_of(s));
      const span::Range range = search::take_from(s, length >> kGranuleLog);
      if (range.base == 0) continue;
      step = length;
      return range;
    }
    return {};
  }
  const uintptr_t end = frontier::end();
  const size_t length = round_up(end, alignment) - end + step;
  const uintptr_t from = frontier::advance(length, false);
  is_full = from == 0;
  return is_full ? span::Range{} : cut(from, length, step, alignment);
}

// The advice is taken back at once. The huge pages stay, and the system's own thread, which merges
// small pages into huge ones where it is advised to, does not bring back what is purged later. And
// the mapping stays one.
void populate(void* at, size_t step) {
  if (os::advise(at, step, os::Advice::kHugePages)) note_huge_pages();
  if (!os::advise(at, step, os::Advice::kPopulate)) is_refused.store(true, memory_order_relaxed);
  os::advise(at, step, os::Advice::kNoHugePages);
}

}  // namespace

bool serves(size_t filled) {
  return filled >= most(kLeastFilled, ledger::used() / kFilledShare) &&
         get(options.thp) == kHugeAuto && !is_refused.load(memory_order_relaxed);
}

bool prepare(size_t needed, size_t filled) {
  if (!serves(filled)) return false;
  if (ahead_bytes.get() >= needed || !ledger::purging.try_lock()) return true;
  span::Range range;
  size_t step = 0;
  {
    const os::Guard guard(ledger::lock);
    const bool is_resident =
        ahead_bytes.get() >= needed || free_spans::find(kDirty, needed >> kGranuleLog) != nullptr;
    step = is_resident ? 0 : next_step(needed);
    if (step != 0) range = find(step, needed);
    if (range.base != 0) ledger::in_transit_bytes.add(step);
  }
  if (range.base != 0) {
    populate(reinterpret_cast<void*>(range.base), step);  // nobody else has this range
    const os::Guard guard(ledger::lock);
    give_up();
    base = range.base;
    ahead_bytes.add(step);
    taken = true;
    ledger::in_transit_bytes.add(-step);
    limits::weigh(ledger::committed_locked());
  }
  ledger::purging.unlock();
  return true;
}

uintptr_t take(size_t length) {
  if (ahead_bytes.get() < length) return 0;
  const uintptr_t first = base;
  base += length;
  ahead_bytes.add(-length);
  taken = true;
  return first;
}

void give_up() {
  const size_t length = ahead_bytes.get();
  if (length == 0) return;
  ahead_bytes.add(-length);
  free_spans::insert(base, length >> kGranuleLog, kDirty);
}

void tick() {
  if (!taken) give_up();
  taken = false;
  is_full = false;
}

}  // namespace loft::prefault
