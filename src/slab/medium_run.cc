#include "slab/medium_run.h"

#include "os/fault.h"
#include "space/span.h"

namespace loft::medium {

constinit Atomic<uint32_t> destroyed{0};
constinit Atomic<HeapId> samples{kNoHeap};

namespace {

constexpr size_t metadata_bytes(unsigned pages) {
  return sizeof(MediumRun) + pages * sizeof(MediumWord);
}
static_assert(metadata_bytes(kMostRunPages) <= kMetadataMaxBlock);

struct RunSpan {
  span::Range range;
  size_t granules;
};

// Memory that is there comes first, even if it makes a short run. If addresses are scarce, there
// are some for the first object; so too if they cost memory before they are touched.
RunSpan acquire(size_t granules, size_t wanted) {
  for (const size_t n : {wanted, granules}) {
    if (const span::Range range = span::acquire_resident(n); range.base != 0) return {range, n};
  }
  if (os::locks_mappings()) wanted = granules;
  const span::Range clean = span::acquire_as(wanted, kGranule, 0, span::Want::kCleanOnly);
  if (clean.base != 0) return {clean, wanted};
  const span::Range some = span::acquire(granules, kGranule);
  if (some.base != 0 && some.zero) span::recount(granules << kGranuleLog, 0);
  return {some, granules};
}

}  // namespace

MediumRun* create(unsigned pages, unsigned wanted, HeapId owner) {
  const size_t page = os::page_size();
  const size_t per_granule = kGranule / page;
  const auto granules = [=](unsigned n) { return (n + per_granule - 1) / per_granule; };
  const RunSpan taken = acquire(granules(pages), granules(wanted));
  if (taken.range.base == 0) return nullptr;
  const auto got = static_cast<unsigned>(taken.granules * per_granule);
  auto* run = static_cast<MediumRun*>(metadata::allocate(metadata_bytes(got)));
  if (run == nullptr) {
    span::release(taken.range.base, taken.granules, !taken.range.zero,
                  taken.range.zero ? 0 : taken.granules << kGranuleLog);
    return nullptr;
  }
  run->base = taken.range.base;
  run->pages = got;
  run->page_log = lowest_bit(page);
  if (!taken.range.zero) run->touched.add({0, got});
  set_owner(run, owner);
  return run;
}

void destroy(MediumRun* run, unsigned touched) {
  destroyed.fetch_add(1, memory_order_relaxed);
  const uintptr_t base = run->base;
  const size_t granules = run->granules();
  const size_t bytes = size_t{touched} << run->page_log;
  const uintptr_t end = round_up(run->address_of(run->touched.end()), kGranule);
  const size_t used = (end - base) >> kGranuleLog;
  pagemap.fill(base, granules, Entry{});
  metadata::release(run, metadata_bytes(run->pages));
  if (used != granules) span::release(end, granules - used, false, used == 0 ? bytes : 0);
  if (used != 0) span::release(base, used, true, bytes);
}

void set_owner(MediumRun* run, HeapId owner) {
  pagemap.fill(run->base, run->granules(), Entry(owner, kMedium, metadata::index_of(run)));
}

void report_misuse(const char* what, const void* p, MediumRun* run) {
  const unsigned first = run->first_of(p);
  Text line;
  line << what << " " << p;
  if (const unsigned pages = run->words[first].object().pages; pages != 0) {
    line << ": object " << reinterpret_cast<const void*>(run->address_of(first)) << " of "
         << (uint64_t{pages} << run->page_log) << " bytes";
  }
  os::fault(line);
}

}  // namespace loft::medium
