#include "space/frontier.h"

#include "base/atomic.h"
#include "os/os.h"
#include "space/free_spans.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/window.h"

namespace loft::frontier {

namespace {

// Relaxed: readers without the lock only count bytes.
constinit Atomic<uintptr_t> frontier{0};
constinit size_t passed_over = 0;  // bytes below the frontier in other mappings

constexpr size_t kLongStep = size_t{64} << 20;

void set(uintptr_t address) { frontier.store(address, memory_order_relaxed); }

}  // namespace

void begin() { set(window.heap.base); }

uintptr_t end() { return frontier.load(memory_order_relaxed); }

uintptr_t advance(size_t bytes, bool next_to_last) {
  if (bytes > window.heap.end - end()) return 0;
  // Metadata keeps its growth, even if the step then fails, and its share of a long step is large.
  // So a long step first asks whether the system has room for all of it: a refused step must not
  // leave less room for other requests.
  if (bytes > kLongStep && !os::has_room_for(bytes + bytes / kMetadataShare)) return 0;
  if (!metadata::keep_room_for(end() + bytes - window.heap.base - passed_over)) return 0;
  const uintptr_t rest_end = window.heap.committed;
  const HeapStep step = grow_heap(end(), bytes);
  if (step.base == 0) return 0;
  pagemap.raise_limit(window.heap.committed);
  if (step.moved) {
    passed_over += step.base - rest_end;
    if (rest_end != end()) {
      free_spans::insert(end(), (rest_end - end()) >> kGranuleLog, kClean);
    }
  }
  const bool wanted = !step.moved || !next_to_last;
  set(wanted ? step.base + bytes : step.base);
  return wanted ? step.base : 0;
}

}  // namespace loft::frontier
