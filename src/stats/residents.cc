#include "stats/residents.h"

#include "base/peek.h"
#include "cache/medium_cache.h"
#include "heap/large.h"
#include "heaps/user_heap.h"
#include "os/os.h"
#include "os/residency.h"
#include "slab/medium_runs.h"
#include "space/free_spans.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span.h"
#include "space/window.h"

namespace loft {

namespace {

class PageWalk {
 public:
  PageWalk(uintptr_t end, Residents& found) : end_(end), found_(found) {
    residency_.begin(pagemap.base, end);
  }

  void go() {
    for (uintptr_t at = pagemap.base; at < end_;) {
      const Entry entry = pagemap.of(reinterpret_cast<const void*>(at));
      size_t granules = 0;
      if (entry.bin() == kLarge) {
        granules = pass_large(at, entry);
      } else if (entry.bin() == kMedium) {
        granules = pass_run(at, entry);
      } else if (entry.bin() == kFreeSpan) {
        granules = pass_span(at, entry);
      }
      if (granules == 0) {
        part_of(entry) += resident_until(at + kGranule);
        granules = 1;
      }
      at += granules << kGranuleLog;
    }
  }

  // The object in the thread's bin has been taken for one of the program's.
  void move_recent(const ThreadCache* thread) {
    const void* p = nullptr;
    medium_cache::held(thread, &p);
    if (p == nullptr || pagemap.of(p).bin() != kMedium) return;
    const MediumWord::Object object = medium::run_at(pagemap.of(p))->peek_at(p);
    const size_t bytes = object.pages * kRunPage;
    if (bytes == 0 || object.kept || found_.live_objects == 0 || bytes > found_.live) return;
    --found_.live_objects;
    found_.live -= bytes;
    found_.kept += bytes;
    found_.asked = least(found_.live, found_.asked - object.asked);
  }

  // Counts [from, to), a table of loft's own.
  void go_along(uintptr_t from, uintptr_t to) {
    residency_.begin(from, round_up(to, os::page_size()));
    found_.metadata += resident_until(round_up(to, os::page_size()));
  }

 private:
  size_t& part_of(Entry entry) {
    if (entry.bin() == kGuest) return found_.user_heaps;
    return entry.is_slab() ? found_.classes[class_of_bin(entry.bin())] : found_.free;
  }

  size_t resident_until(uintptr_t limit) {
    const os::Residency::Bytes bytes = residency_.until(limit);
    found_.huge += bytes.huge;
    return bytes.resident;
  }

  bool fits(uintptr_t at, size_t granules) const {
    return granules != 0 && granules <= (end_ - at) >> kGranuleLog;
  }

  // Returns the number of granules passed. 0: the object of the entry is gone, or not there yet.
  size_t pass_large(uintptr_t at, Entry entry) {
    const Large* object = large::at(entry);
    const size_t granules = peek(object->granules);
    const size_t bytes = peek(object->bytes);
    const size_t asked = peek(object->asked);
    if (peek(object->base) != at || !fits(at, granules) || bytes > granules << kGranuleLog ||
        asked > bytes) {
      return 0;
    }
    ++found_.live_objects;
    found_.live += bytes;
    found_.asked += asked;
    found_.touched += resident_until(at + bytes);
    found_.behind += resident_until(at + (granules << kGranuleLog));
    return granules;
  }

  size_t pass_run(uintptr_t at, Entry entry) {
    const MediumRun* run = medium::run_at(entry);
    const unsigned pages = least(peek(run->pages), kMostRunPages);
    const uintptr_t end = at + pages * kRunPage;
    const size_t granules = (end - at) >> kGranuleLog;
    if (peek(run->base) != at || !fits(at, granules)) return 0;
    for (unsigned page = 0; page < pages;) {
      const MediumWord::Object state = run->words[page].peeked();
      const size_t bytes = state.pages * kRunPage;
      if (state.pages == 0 || state.pages > pages - page) {
        found_.free_in_runs += resident_until(at + ++page * kRunPage);
        continue;
      }
      if (state.kept) {
        found_.kept += bytes;
      } else {
        ++found_.live_objects;
        found_.live += bytes;
        found_.asked += state.asked;
      }
      page += state.pages;
      found_.touched += resident_until(at + page * kRunPage);
    }
    return granules;
  }

  size_t pass_span(uintptr_t at, Entry entry) {
    const Span* span = metadata::at_index<Span>(entry.index());
    const size_t granules = peek(span->granules);
    if (peek(span->base) != at || !fits(at, granules)) return 0;
    found_.free += resident_until(at + (granules << kGranuleLog));
    return granules;
  }

  const uintptr_t end_;
  Residents& found_;
  os::Residency residency_;
};

}  // namespace

Residents look_at_residents() {
  Residents found = {};
  const size_t used = span::used_bytes();
  if (used == 0) return found;
  // Rounded up, because a huge page may reach beyond the last address ever handed out. Up to the
  // limit the table of the entries is mapped.
  const uintptr_t limit = pagemap.base + (pagemap.limit.get_acquire() << kAlignmentLog);
  PageWalk walk(least(limit, round_up(pagemap.base + used, kHugePage)), found);
  walk.go();
  for (const ThreadCache* t = newest_cache(); t != nullptr; t = t->older) walk.move_recent(t);
  walk.go_along(window.pagemap.base, window.pagemap.base + (used >> kGranuleLog) * sizeof(Entry));
  if (metadata::end() != 0) walk.go_along(window.metadata.base, metadata::end());
  return found;
}

}  // namespace loft
