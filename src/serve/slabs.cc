#include "serve/slabs.h"

#include "base/bits.h"
#include "base/peek.h"
#include "heap/large.h"
#include "loft/loft.h"
#include "slab/geometry.h"
#include "slab/medium_runs.h"
#include "slab/slab.h"
#include "space/free_spans.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span.h"
#include "space/window.h"
#include "stats/report.h"

namespace loft::serve {

namespace {

unsigned long long as_number(uint64_t n) { return n; }

class HeapMap {
 public:
  HeapMap(Output& output, uint64_t from, size_t most) : output_(output), from_(from), most_(most) {}

  void write() {
    output_.print("{\"loft\": \"%s\", \"granule_bytes\": %llu, \"page_bytes\": %llu, \"ranges\": [",
                  LOFT_VERSION_STRING, as_number(kGranule), as_number(os::page_size()));
    // The table of the entries is mapped up to the limit.
    end_ = pagemap.base + least(pagemap.limit.get_acquire() << kAlignmentLog,
                                round_up(span::used_bytes(), kGranule));
    if (span::used_bytes() != 0) walk();
    if (next_ != 0) {
      output_.print("\n], \"next\": %llu}\n", as_number(next_));
    } else {
      output_.print("\n], \"next\": null}\n");
    }
    output_.flush();
  }

 private:
  void walk() {
    for (uintptr_t at = pagemap.base; at < end_;) {
      const Entry entry = pagemap.of(reinterpret_cast<const void*>(at));
      size_t granules = 0;
      if (entry.is_slab()) {
        granules = pass_slab(at, entry);
      } else if (entry.bin() == kMedium) {
        granules = pass_run(at, entry);
      } else if (entry.bin() == kLarge) {
        granules = pass_large(at, entry);
      } else if (entry.bin() == kFreeSpan) {
        granules = pass_span(at, entry);
      } else if (entry.bin() == kGuest) {
        granules = pass_extent(at);
      }
      at += most<size_t>(granules, 1) << kGranuleLog;
    }
  }

  // The granules of the range, if it can be true; otherwise 0.
  size_t whole(uintptr_t base, uintptr_t at, size_t granules) const {
    const bool fits = base == at && granules != 0 && granules <= (end_ - at) >> kGranuleLog;
    return fits ? granules : 0;
  }

  // Begins the entry of a range. False if it is not to be listed.
  bool begin(uintptr_t at, size_t granules, const char* kind) {
    if (at < from_ || next_ != 0) return false;
    if (listed_ == most_) {
      next_ = at;
      return false;
    }
    output_.print("%s\n{\"at\": %llu, \"bytes\": %llu, \"kind\": \"%s\"", listed_ == 0 ? "" : ",",
                  as_number(at), as_number(granules << kGranuleLog), kind);
    ++listed_;
    return true;
  }

  size_t pass_slab(uintptr_t at, Entry entry) {
    const Slab* slab = slab::at(entry);
    const SizeClass c = class_of_bin(entry.bin());
    const Geometry& shape = geometry(c);
    const size_t granules = whole(peek(slab->base), at, shape.granules);
    const size_t free = peek(slab->free);
    if (granules == 0 || free > shape.objects) return 0;
    if (begin(at, granules, "slab")) {
      output_.print(", \"owner\": %u, \"object_bytes\": %u, \"objects\": %u, \"free\": %llu}",
                    entry.owner(), shape.size, shape.objects, as_number(free));
    }
    return granules;
  }

  size_t pass_run(uintptr_t at, Entry entry) {
    const MediumRun* run = medium::run_at(entry);
    const unsigned pages = least(peek(run->pages), kMostRunPages);
    const size_t granules = whole(peek(run->base), at, pages * kRunPage >> kGranuleLog);
    if (granules == 0) return 0;
    size_t objects = 0;
    size_t used = 0;
    for (unsigned page = 0; page < pages;) {
      const MediumWord::Object object = run->words[page].peeked();
      const bool is_one = object.pages != 0 && object.pages <= pages - page;
      if (is_one && !object.kept) {
        ++objects;
        used += object.pages;
      }
      page += is_one ? object.pages : 1;
    }
    if (begin(at, granules, "medium")) {
      output_.print(", \"owner\": %u, \"objects\": %llu, \"used_bytes\": %llu%s}", entry.owner(),
                    as_number(objects), as_number(used * kRunPage),
                    medium::is_sampled(entry) ? ", \"samples\": true" : "");
    }
    return granules;
  }

  size_t pass_large(uintptr_t at, Entry entry) {
    const Large* object = large::at(entry);
    const size_t granules = whole(peek(object->base), at, peek(object->granules));
    const size_t bytes = peek(object->kept) ? 0 : peek(object->bytes);
    if (granules == 0 || bytes > granules << kGranuleLog) return 0;
    if (begin(at, granules, "large")) output_.print(", \"used_bytes\": %llu}", as_number(bytes));
    return granules;
  }

  size_t pass_span(uintptr_t at, Entry entry) {
    const Span* span = metadata::at_index<Span>(entry.index());
    const size_t granules = whole(peek(span->base), at, peek(span->granules));
    if (granules != 0 && begin(at, granules, "free")) output_.print("}");
    return granules;
  }

  // Memory of the program's own heaps, as far as it lies side by side.
  size_t pass_extent(uintptr_t at) {
    size_t granules = 1;
    for (uintptr_t next = at + kGranule; next < end_; next += kGranule, ++granules) {
      if (pagemap.of(reinterpret_cast<const void*>(next)).bin() != kGuest) break;
    }
    if (begin(at, granules, "heap")) output_.print("}");
    return granules;
  }

  Output& output_;
  const uint64_t from_;
  const size_t most_;
  uintptr_t end_ = 0;
  size_t listed_ = 0;
  uint64_t next_ = 0;  // the first range that was to be listed and is not; 0: none
};

}  // namespace

void write_slabs(Output& output, uint64_t from, size_t most) {
  HeapMap(output, from, most).write();
}

}  // namespace loft::serve
