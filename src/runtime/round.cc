#include "runtime/round.h"

#include "base/bits.h"
#include "cache/guest.h"
#include "heap/registry.h"
#include "space/span.h"

namespace loft {

void Round::begin(unsigned ticks) {
  ticks_ = ticks;
  next_ = 1;
  ticked_ = false;
  found_nothing_ = true;
  just_freed_ = 0;
}

// Spans that idle heaps have just freed were unused for long enough.
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
  ticked_ = true;
}

bool Round::go_on(Share share, unsigned ticks) {
  if (next_ == 0) begin(ticks);
  if (!ticked_) {
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

}  // namespace loft
