#include "space/ledger.h"

#include "space/free_spans.h"
#include "space/metadata.h"

namespace loft::span::ledger {

constinit os::Lock lock;
constinit os::Lock purging;
constinit Counter in_transit_bytes;
constinit Counter ahead_bytes;
constinit Counter in_use;
constinit Atomic<size_t> recounted{0};
constinit LowWater<kDecayTicks> least_dirty;

size_t counted() {
  return used() + free_spans::dirty_bytes() + ahead_bytes.get() + in_transit_bytes.get();
}

size_t committed_locked() { return counted() + metadata::touched_bytes(); }

}  // namespace loft::span::ledger
