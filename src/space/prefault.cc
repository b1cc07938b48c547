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

// Half of it is waste on average, in each class that grows. It is a share of what the program has
// taken before: what the last refill brought may lie in a cache for good.
constexpr size_t kShareInSlab = 24;
constexpr size_t kMostInSlab = size_t{64} << 10;

// A huge page is memory that a program may never use, and a program that is small feels it.
constexpr size_t kLeastUsed = size_t{64} << 20;
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

bool may_populate() {
  return get(options.thp) == kHugeAuto && !is_refused.load(memory_order_relaxed);
}

bool has_room() {
  if (limits::tight() || is_full || unused::bound() / kDirtyShare < kHugePage) return false;
  const size_t limit = limits::soft();
  return kHugePage <= limit && ledger::committed_locked() <= limit - kHugePage;
}

// Makes one huge page of granules without memory: a huge page takes the place of pages that were
// never touched. What lies before and behind it stays clean, for shorter needs. 0 if there is none.
uintptr_t cut(uintptr_t from, size_t length) {
  const uintptr_t begin = round_up(from, kHugePage);
  const uintptr_t end = from + length;
  const auto leave = [](uintptr_t at, uintptr_t behind) {
    if (at != behind) free_spans::insert(at, (behind - at) >> kGranuleLog, kClean);
  };
  if (begin + kHugePage > end) {
    leave(from, end);
    return 0;
  }
  leave(from, begin);
  leave(begin + kHugePage, end);
  return begin;
}

uintptr_t find() {
  constexpr size_t kWide = 2 * kHugePage - kGranule;
  for (const SpanState state : {kClean, kUnmapped}) {
    Span* s = free_spans::find(state, kWide >> kGranuleLog);
    const span::Range range = search::take_from(s, kWide >> kGranuleLog);
    if (range.base != 0) return cut(range.base, kWide);
  }
  const size_t clean = free_spans::bytes[kClean].get() + free_spans::bytes[kUnmapped].get();
  if (clean > ledger::used() / kCleanShare) return 0;
  const uintptr_t end = frontier::end();
  const size_t length = round_up(end, kHugePage) - end + kHugePage;
  const uintptr_t from = frontier::advance(length, false);
  is_full = from == 0;
  return is_full ? 0 : cut(from, length);
}

// The advice is taken back at once. The huge pages stay, and the system's own thread, which merges
// small pages into huge ones where it is advised to, does not bring back what is purged later. And
// the mapping stays one.
void populate_huge(uintptr_t at) {
  void* const page = reinterpret_cast<void*>(at);
  if (os::advise(page, kHugePage, os::Advice::kHugePages)) note_huge_pages();
  populate(at, kHugePage);
  os::advise(page, kHugePage, os::Advice::kNoHugePages);
}

}  // namespace

size_t share(size_t filled, size_t needed) {
  if (!may_populate() || limits::tight()) return 0;
  return least(filled / kShareInSlab, most(needed, kMostInSlab));
}

bool populate(uintptr_t at, size_t bytes) {
  const bool done = os::advise(reinterpret_cast<void*>(at), bytes, os::Advice::kPopulate);
  if (!done) is_refused.store(true, memory_order_relaxed);
  return done;
}

bool serves(size_t filled) {
  return filled >= most(kLeastFilled, ledger::used() / kFilledShare) && may_populate();
}

bool prepare(size_t needed, size_t filled) {
  if (ledger::used() < kLeastUsed || !serves(filled)) return false;
  if (ahead_bytes.get() >= needed || !ledger::purging.try_lock()) return true;
  uintptr_t found = 0;
  {
    const os::Guard guard(ledger::lock);
    const bool is_resident =
        ahead_bytes.get() >= needed || free_spans::find(kDirty, needed >> kGranuleLog) != nullptr;
    if (!is_resident && has_room()) found = find();
    if (found != 0) ledger::in_transit_bytes.add(kHugePage);
  }
  if (found != 0) {
    populate_huge(found);  // nobody else has this range
    const os::Guard guard(ledger::lock);
    give_up();
    base = found;
    ahead_bytes.add(kHugePage);
    taken = true;
    ledger::in_transit_bytes.add(-kHugePage);
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
