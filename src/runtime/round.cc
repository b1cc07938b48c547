#include "runtime/round.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/look.h"
#include "cache/guest.h"
#include "cache/thread_cache.h"
#include "heap/registry.h"
#include "os/limits.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/span.h"
#include "space/unused.h"

namespace loft {

void Round::begin(unsigned ticks) {
  ticks_ = ticks;
  next_ = 1;
  only_spans_left_ = false;
  found_nothing_ = true;
  just_freed_ = 0;
}

// Counts the spans that idle heaps free: they were unused for long enough.
void Round::visit_heaps(Share& share) {
  for (; next_ <= registry::count() && share.heaps != 0 && share.bytes != 0; --share.heaps) {
    const size_t dirty_before = span::totals().dirty;
    Heap* const heap = registry::at(next_);
    size_t purged = 0;
    const Heap::Rest rest =
        heap->look(heap == registry::common_heap(), ticks_, share.bytes, &purged);
    found_nothing_ = found_nothing_ && rest == Heap::Rest::kWhole;
    const size_t dirty = span::totals().dirty;
    just_freed_ += dirty > dirty_before ? dirty - dirty_before : 0;
    share.bytes -= least(share.bytes, purged);
    if (rest != Heap::Rest::kInterrupted) ++next_;
  }
}

void Round::visit_others() {
  const size_t dirty_before = span::totals().dirty;
  found_nothing_ = guest::purge_idle(ticks_) && found_nothing_;
  const size_t dirty = span::totals().dirty;
  just_freed_ += dirty > dirty_before ? dirty - dirty_before : 0;
  const size_t idle = span::idle_bytes(ticks_);
  wanted_ = least(idle + just_freed_, dirty);
  // Spans that the system refuses to take back are no reason to go on.
  found_nothing_ = found_nothing_ && idle == dirty;
  only_spans_left_ = true;
}

bool Round::go_on(Share share, unsigned ticks) {
  if (next_ == 0) begin(ticks);
  if (!only_spans_left_) {
    visit_heaps(share);
    if (next_ <= registry::count()) return false;
    visit_others();
  }
  while (wanted_ != 0 && share.bytes != 0) {
    const size_t purged = span::purge_step(least(wanted_, share.bytes));
    if (purged == 0) wanted_ = 0;
    found_nothing_ = found_nothing_ && purged == 0;
    wanted_ -= least(wanted_, purged);
    share.bytes -= least(share.bytes, purged);
  }
  if (wanted_ != 0) return false;
  next_ = 0;
  return true;
}

namespace {

constinit os::Lock purging_excess;

// Whoever frees too much asks for a purge, and may find another thread at it, which does not look
// at what comes meanwhile. Nobody may come again: so that thread looks here once it has finished.
// Read-modify-writes with acquire and release: if a thread asks behind the last look, it sees the
// lock free, which was released before. A word, for what decision 086 says.
constinit Atomic<uint32_t> asked{0};
// So often at most: a thread that purged for hundreds would not get on with its own calls.
constexpr unsigned kPurgesAtOnce = 4;

size_t excess_of_all() { return unused::excess(unused::kAll); }

size_t excess_of_heaps() { return most(excess_of_all(), unused::excess(unused::kInHeaps)); }

// No more than the excess of this moment: who frees more meanwhile asks for another purge.
size_t purge_spans() {
  size_t purged = 0;
  const size_t wanted = excess_of_all();
  for (size_t step = 1; step != 0 && purged < wanted; purged += step) {
    step = span::purge_step(wanted - purged);
  }
  return purged;
}

enum class What : uint8_t { kSpares, kAll };

// Leaves out a heap whose thread is in a call at this moment: *skipped.
size_t purge_heap(Heap* heap, What what, size_t most, bool* skipped) {
  if (heap->is_purged() && !heap->inbox().maybe_pending()) return 0;
  if (!heap->lock().try_lock()) {
    *skipped = true;
    return 0;
  }
  size_t purged = 0;
  const bool abandoned = heap->abandoned();
  if (what == What::kAll) {
    purged = heap->purge(nullptr, abandoned ? Heap::Walk::kNow : Heap::Walk::kExcess, most);
  } else if (abandoned) {
    heap->trim_spares(0);
  } else {
    purged = heap->purge_spares(most);
  }
  heap->lock().unlock();
  return purged;
}

// Stops at the excess of its beginning once others have come: one thread is not to pay for hundreds
// at work. The next purge goes on behind the last heap.
size_t purge_heaps(What what, bool* skipped) {
  static constinit unsigned next = 0;
  const size_t wanted = excess_of_heaps();
  const unsigned count = registry::count();
  size_t purged = 0;
  for (unsigned i = 0; i < count; ++i) {
    const size_t excess = excess_of_heaps();
    if (excess == 0 || (purged >= wanted && asked.load(memory_order_relaxed) != 0)) break;
    purged += purge_heap(registry::at(next++ % count + 1), what, excess, skipped);
    purged += purge_spans();  // the slabs that have become empty
  }
  return purged;
}

// Whoever finds another thread at it gives back the spare slabs of its own heap: heaps at work
// shrink side by side.
void purge_own() {
  constexpr size_t kLittle = size_t{1} << 20;
  Heap* const heap = this_thread()->heap;
  if (heap == nullptr || limits::tight()) return;
  const size_t excess = excess_of_heaps();
  if (excess == 0) return;
  bool skipped = false;
  const size_t purged = purge_heap(heap, What::kSpares, least(excess, kLittle), &skipped);
  if (purged != 0) unused::note_purged(purged, os::now_ns());
}

void purge() {
  unused::adapt(os::now_ns());
  if (!unused::is_too_much()) return;
  const size_t all = unused::total(unused::kAll);
  const size_t in_heaps = unused::total(unused::kInHeaps);
  bool skipped = false;
  const size_t of_spans = purge_spans();
  // Spare slabs first: to drain an inbox, and to visit each slab, costs many times as much.
  bool visited_later = false;
  size_t of_heaps = purge_heaps(What::kSpares, &visited_later);
  of_heaps += purge_heaps(What::kAll, &skipped);
  const size_t purged = of_spans + of_heaps;
  unused::note_purged(purged, os::now_ns());
  // Of what was there at the beginning: what has come meanwhile can go.
  if (!skipped) unused::note_left(all - least(all, purged), in_heaps - least(in_heaps, of_heaps));
}

// Where memory is tight, a purge is followed by a pause: what is freed and taken in turn is not to
// fault in each time. Returns whether it has purged.
bool purge_or_wait() {
  static constinit PurgePause pause;
  if (LOFT_LIKELY(!limits::tight())) {
    purge();
    return true;
  }
  return pause.purge_or_wait(unused::total() > limits::scarce_dirty(), purge);
}

}  // namespace

void purge_excess() {
  bool purged = false;
  for (unsigned i = 0; i != kPurgesAtOnce; ++i) {
    asked.exchange(1, memory_order_acq_rel);
    if (!purging_excess.try_lock()) return purge_own();
    asked.exchange(0, memory_order_acq_rel);
    purged = purge_or_wait();
    purging_excess.unlock();
    // The last time, the word is the next holder's.
    if (i + 1 == kPurgesAtOnce || asked.exchange(0, memory_order_acq_rel) == 0) break;
  }
  // Others have freed more meanwhile, or a heap was left out.
  if (LOFT_UNLIKELY(purged && unused::is_too_much())) look_soon();
}

void forget_excess() { purging_excess.reset(); }

}  // namespace loft
