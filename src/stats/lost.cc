#include "stats/lost.h"

#include "cache/object.h"
#include "files/inspect.h"
#include "os/os.h"
#include "profile/samples.h"
#include "runtime/lifecycle.h"
#include "slab/slab.h"
#include "space/span.h"
#include "space/window.h"
#include "stats/objects.h"

namespace loft {

namespace {

// Objects in caches are no objects of the program's: what they take is wasted, too.
uint64_t share_at(void* context, const void* kept) {
  const Starts& live = *static_cast<const Starts*>(context);
  const Entry entry = pagemap.of(kept);
  if (!entry.is_slab()) return 0;
  const Slab* const slab = slab::at(entry);
  const uintptr_t end = slab->base + (size_t{slab->shape().granules} << kGranuleLog);
  const size_t objects = live.count(slab->base, end);  // the place is one of them
  const size_t used = objects * slab->shape().size;
  const size_t resident = slab->charged_pages() * os::page_size();
  return objects == 0 || resident <= used ? 0 : (resident - used) / objects;
}

}  // namespace

bool count_waste() {
  Starts live;
  lifecycle::lock_all();
  const bool enough = note_objects(live, nullptr, With::kKept);
  if (enough) profile::count_waste(share_at, &live);
  lifecycle::unlock_all();
  return enough;
}

bool count_leaks(inspect::LookedAt* looked_at) {
  const inspect::Table* const library = inspect::opened_library();
  if (library == nullptr) return true;
  if (span::used_bytes() == 0) return false;
  const auto around = [](uintptr_t address) -> inspect::AddressRange {
    const ObjectRange object = object_of(reinterpret_cast<const void*>(address));
    const auto start = reinterpret_cast<uintptr_t>(object.start);
    return {start, start + object.size};
  };
  return library->search_leaks(
      {
          .all = {pagemap.base, pagemap.base + span::used_bytes()},
          .own = {{window.heap.base, window.heap.committed},
                  {window.pagemap.base, window.pagemap.committed},
                  {window.metadata.base, window.metadata.committed}},
          .alignment_log = kAlignmentLog,
          .around = around,
          .count_lost = profile::count_lost,
      },
      looked_at);
}

}  // namespace loft
