// Sums of a heap's counters. In debug builds, also checks of its lists and counters.
#include "heap/heap.h"
#include "space/span.h"

namespace loft {

void Heap::check() const {
  if (!kDebug) return;
  for (const Available& available : available_) {
    uint32_t slabs = 0;
    for (const List<Slab>& list : available.lists) {
      bool settled = false;
      for (const Slab* slab = list.front(); slab != nullptr; slab = slab->next, ++slabs) {
        LOFT_CHECK(slab->settled() || !settled || interrupted_);
        settled = slab->settled();
        LOFT_CHECK(slab->owner == id_ &&
                   &list == &available.lists[static_cast<unsigned>(slab->list)]);
        slab->check();
      }
    }
    LOFT_CHECK(slabs == available.slabs);
  }
  for (unsigned i = 0; i < spare_count_; ++i) {
    const Slab* slab = spares_[i].slab;
    LOFT_CHECK(slab->owner == id_ && slab->list == Fullness::kSpare &&
               slab->size_class == spares_[i].size_class);
    slab->check();
  }
  mediums_.check(id_);
  check_counters();
}

// Compares the counters with the bitmaps of all slabs of the heap. Full slabs are in no list, so
// the pagemap supplies them.
void Heap::check_counters() const {
  size_t allocated = 0;
  size_t charged = 0;
  size_t slabs = 0;
  size_t held = 0;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    held += size_t{available_[c].held} * geometry(c).granules << kGranuleLog;
  }
  const uintptr_t end = pagemap.base + span::used_bytes();
  for (uintptr_t at = pagemap.base; at < end; at += kGranule) {
    const Entry entry = pagemap.of(reinterpret_cast<const void*>(at));
    if (entry.owner() != id_ || !entry.is_slab() || slab::at(entry)->base != at) continue;
    const Slab* slab = slab::at(entry);
    const Geometry& shape = slab->shape();
    allocated += (shape.objects - slab->free) * size_t{shape.size};
    charged += slab->charged_pages();
    slabs += slab->list == Fullness::kSpare ? 0 : size_t{shape.granules} << kGranuleLog;
  }
  LOFT_CHECK(counters_.allocated_bytes() == allocated);
  LOFT_CHECK(counters_.charged_pages() == charged);
  LOFT_CHECK(counters_.slab_bytes() == slabs && held == slabs);
  LOFT_CHECK(unused_ == charged * os::page_size() - allocated);
}

size_t HeapCounters::slab_bytes() const {
  size_t sum = adopted.slab_bytes.get();
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    sum += classes[c].slabs() * size_t{geometry(c).granules} << kGranuleLog;
  }
  return sum;
}

size_t HeapCounters::allocated_bytes() const {
  size_t sum = adopted.allocated_bytes.get();
  for (SizeClass c = 0; c < kSizeClasses; ++c) sum += classes[c].out() * geometry(c).size;
  return sum;
}

size_t HeapCounters::charged_pages() const {
  size_t sum = adopted.charged_pages.get();
  for (const ClassCounters& counters : classes) sum += counters.charged.get();
  return sum;
}

size_t HeapCounters::objects_received() const {
  size_t sum = 0;
  for (const ClassCounters& counters : classes) sum += counters.received.get();
  return sum;
}

}  // namespace loft
