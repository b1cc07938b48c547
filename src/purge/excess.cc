#include "purge/excess.h"

#include "base/bits.h"
#include "heap/registry.h"
#include "limits/limits.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/pause.h"
#include "space/span.h"
#include "space/unused.h"

namespace loft {

namespace {

constinit os::Lock purging;

size_t excess() {
  const size_t total = unused::total();
  return total - least(total, unused::floor());
}

size_t purge_spans() {
  size_t purged = 0;
  for (size_t step = 1; step != 0 && excess() != 0; purged += step) {
    step = span::purge_step(excess());
  }
  return purged;
}

// Heaps whose thread is in a call at this moment are left out: they have less in a moment, or tell
// of more.
size_t purge_heaps() {
  size_t purged = 0;
  for (unsigned id = 1; id <= registry::count() && excess() != 0; ++id) {
    Heap* const heap = registry::at(id);
    if (heap->is_purged() && !heap->inbox().maybe_pending()) continue;
    if (!heap->lock().try_lock()) continue;
    const auto walk = heap->parked() ? Heap::Walk::kNow : Heap::Walk::kAtWorkNow;
    purged += heap->purge(nullptr, walk, excess());
    heap->lock().unlock();
    purged += purge_spans();  // the slabs that have become empty
  }
  return purged;
}

void purge() {
  unused::adapt(os::now_ns());
  if (!unused::is_too_much()) return;
  size_t purged = purge_spans();
  if (excess() != 0) purged += purge_heaps();
  unused::note_purged(purged, os::now_ns());
  unused::rest();
}

}  // namespace

// Where memory is tight, a purge is followed by a pause: what is freed and taken in turn is not to
// fault in each time.
void purge_excess() {
  static constinit PurgePause pause;
  while (unused::is_too_much() && purging.try_lock()) {
    const bool scarce = unused::total() > limits::scarce_dirty();
    const bool paused = limits::tight() && !pause.purge_or_wait(scarce, purge);
    if (!limits::tight()) purge();
    purging.unlock();
    if (paused) return;
  }
}

}  // namespace loft
