// The medium objects of a heap: handing out, taking back, and runs that change owners.
#include "heap/heap.h"
#include "os/fault.h"
#include "space/span.h"

namespace loft {

// As a refill: messages first, then runs of other heaps, then new memory.
MediumRuns::Taken Heap::take_pages(unsigned pages, bool room) {
  if (inbox_.maybe_pending()) drain(kDrainBytes);
  MediumRuns::Taken taken = mediums_.take(pages, room);
  if (taken.run == nullptr && inbox_.maybe_pending()) {
    inbox_.complete();
    drain(kDrainBytes);
    taken = mediums_.take(pages, room);
  }
  if (taken.run != nullptr) return taken;
  if (!take_run_from_others(pages) && !mediums_.grow(pages, id_)) {
    if (spare_count_ == 0) return {};
    trim_spares(0);
    if (!mediums_.grow(pages, id_)) return {};
  }
  return mediums_.take(pages, room);
}

void* Heap::take_medium(size_t asked, bool room, bool* zero) {
  counters_.refills.add(1);
  if (LOFT_UNLIKELY(span::ticks() != last_tick_)) tick();
  const unsigned pages = MediumWord::pages_for(asked);
  const MediumRuns::Taken taken = take_pages(pages, room);
  if (taken.run == nullptr) return nullptr;
  taken.run->words[taken.first].set(asked);
  counters_.medium_taken.add(1);
  if (taken.resident) counters_.medium_resident.add(1);
  counters_.medium_out.add(pages * kRunPage);
  is_purged_.store(false, memory_order_relaxed);
  is_idle_ = false;
  *zero = taken.zero;
  return reinterpret_cast<void*>(taken.run->address_of(taken.first));
}

void Heap::put_medium(void* p) {
  MediumRun* const run = medium::run_at(pagemap.of(p));
  MediumWord& word = run->word_at(p);
  const unsigned pages = word.object().pages;
  if (LOFT_UNLIKELY(pages == 0)) medium::report_misuse("double free of", p, run);
  word.clear();
  counters_.medium_out.add(-(pages * kRunPage));
  is_purged_.store(false, memory_order_relaxed);
  mediums_.put(run, {run->page_at(p), pages});
}

bool Heap::resize_medium(void* p, size_t asked) {
  MediumRun* const run = medium::run_at(pagemap.of(p));
  MediumWord& word = run->word_at(p);
  const unsigned first = run->page_at(p);
  const unsigned before = word.object().pages;
  const unsigned pages = MediumWord::pages_for(asked);
  if (pages > before && !mediums_.extend(run, first, before, pages - before)) return false;
  word.set(asked);
  counters_.medium_resized.add(1);
  counters_.medium_out.add(size_t{pages} * kRunPage - before * kRunPage);
  is_purged_.store(false, memory_order_relaxed);
  if (pages < before) mediums_.cut_off(run, {first + pages, before - pages});
  return true;
}

}  // namespace loft
