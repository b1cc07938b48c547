#include "slab/medium_runs.h"
#include "base/options.h"
#include "os/fault.h"
#include "os/limits.h"
#include "space/discards.h"
#include "space/span.h"

namespace loft::medium {

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
  constexpr size_t kPerGranule = kGranule / kRunPage;
  const auto granules = [](unsigned n) { return (n + kPerGranule - 1) / kPerGranule; };
  const RunSpan taken = acquire(granules(pages), granules(wanted));
  if (taken.range.base == 0) return nullptr;
  const auto got = static_cast<unsigned>(taken.granules * kPerGranule);
  auto* run = static_cast<MediumRun*>(metadata::allocate(metadata_bytes(got)));
  if (run == nullptr) {
    span::release(taken.range.base, taken.granules, !taken.range.zero,
                  taken.range.zero ? 0 : taken.granules << kGranuleLog);
    return nullptr;
  }
  run->base = taken.range.base;
  run->pages = got;
  if (!taken.range.zero) run->touched.add({0, got});
  set_owner(run, owner);
  return run;
}

void destroy(MediumRun* run, unsigned touched) {
  const uintptr_t base = run->base;
  const size_t granules = run->granules();
  const size_t bytes = touched * kRunPage;
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
         << uint64_t{pages * kRunPage} << " bytes";
  }
  os::fault(line);
}

}  // namespace loft::medium

namespace loft {

// Descriptors stay with the heap: they are few.
bool MediumRuns::have_descriptors(unsigned wanted) {
  constexpr unsigned kChunk = 16;
  if (LOFT_LIKELY(descriptors_ >= wanted)) return true;
  auto* chunk = static_cast<Gap*>(metadata::allocate(kChunk * sizeof(Gap)));
  if (chunk == nullptr) return false;
  for (unsigned i = 0; i < kChunk; ++i) discard(&chunk[i]);
  descriptors_ += kChunk;
  return true;
}

void MediumRuns::discard(Gap* gap) {
  gap->next = spares_;
  spares_ = gap;
}

Gap* MediumRuns::describe(MediumRun* run, PageRow row) {
  Gap* const gap = spares_;
  spares_ = gap->next;
  *gap = Gap{run, row.first, row.count, nullptr, nullptr};
  return gap;
}

void MediumRuns::list(Gap* gap) {
  const uint32_t index = metadata::index_of(gap);
  gap->run->words[gap->first].set_gap(index);
  gap->run->words[gap->first + gap->pages - 1].set_gap(index);
  gaps_.insert(gap);
  empty_ += is_whole(gap) ? 1u : 0u;
}

void MediumRuns::unlist(Gap* gap) {
  gap->run->words[gap->first].clear();
  gap->run->words[gap->first + gap->pages - 1].clear();
  gaps_.remove(gap);
  empty_ -= is_whole(gap) ? 1u : 0u;
}

void MediumRuns::add(MediumRun* run) {
  runs_.push_front(run);
  ++run_count_;
  pages_.add(run->pages);
}

void MediumRuns::remove(MediumRun* run) {
  runs_.remove(run);
  --run_count_;
  pages_.add(-static_cast<size_t>(run->pages));
}

bool MediumRuns::grow(unsigned pages, HeapId owner) {
  // Long runs are full of longer gaps: with 4 MiB instead of 16, buffers of 64 KiB to 1 MiB took a
  // fifth more memory. What is never touched costs addresses alone.
  constexpr size_t kScarceShare = 8;
  const size_t bytes = least(kMostRunBytes, limits::scarce_dirty() / kScarceShare);
  auto wanted = static_cast<unsigned>(bytes / kRunPage);
  // In a short run a tail is a large part, so it ends where an object of this size does.
  if (bytes < kMostRunBytes) wanted -= wanted % pages;
  if (!have_descriptors(objects_ + run_count_ + 1)) return false;
  see_less();
  MediumRun* const run = medium::create(pages, most(pages, wanted), owner);
  if (run == nullptr) return false;
  add(run);
  dirty_.add(run->touched.count_in({0, run->pages}));
  list(describe(run, {0, run->pages}));
  return true;
}

// Takes the first `count` pages of a gap.
MediumRuns::Taken MediumRuns::claim(Gap* gap, unsigned count) {
  MediumRun* const run = gap->run;
  const PageRow row = {gap->first, count};
  const unsigned resident = run->touched.count_in(row);
  if (resident != count) {
    const size_t more = (count - resident) * kRunPage;
    if (LOFT_UNLIKELY(!span::recount(0, more))) return {};
    unused::note_wanted(more);
  }
  unlist(gap);
  if (gap->pages == count) {
    discard(gap);
  } else {
    gap->first += count;
    gap->pages -= count;
    list(gap);
  }
  dirty_.add(-static_cast<size_t>(resident));
  if (resident != count) run->touched.add(row);
  run->idle.remove(row);
  run->waited = false;
  return {run, row.first, resident == 0, resident == count};
}

MediumRuns::Taken MediumRuns::take(unsigned pages, bool room) {
  if (!have_descriptors(objects_ + run_count_ + 1)) return {};
  Gap* gap = room ? gaps_.find(2 * pages) : nullptr;
  if (gap == nullptr) gap = gaps_.find(pages);
  if (gap == nullptr) return {};
  const Taken taken = claim(gap, pages);
  if (LOFT_LIKELY(taken.run != nullptr)) ++objects_;
  return taken;
}

bool MediumRuns::extend(MediumRun* run, unsigned first, unsigned pages, unsigned more) {
  if (first + pages == run->pages) return false;
  const uint32_t index = run->words[first + pages].gap();
  if (index == 0) return false;
  Gap* const gap = metadata::at_index<Gap>(index);
  return gap->pages >= more && claim(gap, more).run != nullptr;
}

void MediumRuns::put(MediumRun* run, PageRow row) {
  --objects_;
  cut_off(run, row);
}

void MediumRuns::cut_off(MediumRun* run, PageRow row) {
  dirty_.add(row.count);
  PageRow whole = row;
  Gap* gap = nullptr;
  if (row.first != 0) {
    if (const uint32_t index = run->words[row.first - 1].gap(); index != 0) {
      gap = metadata::at_index<Gap>(index);
      unlist(gap);
      whole = {gap->first, gap->pages + row.count};
    }
  }
  if (row.first + row.count != run->pages) {
    if (const uint32_t index = run->words[row.first + row.count].gap(); index != 0) {
      auto* const behind = metadata::at_index<Gap>(index);
      unlist(behind);
      whole.count += behind->pages;
      gap == nullptr ? static_cast<void>(gap = behind) : discard(behind);
    }
  }
  if (gap == nullptr) {
    gap = describe(run, whole);
  } else {
    gap->first = whole.first;
    gap->pages = whole.count;
  }
  list(gap);
  if (LOFT_UNLIKELY(is_whole(gap))) {
    keep_or_release(gap);
    see_less();
  }
  told_.see_more(dirty_pages() * kRunPage);
}

// Those that stay are a quarter of the others, and one: a heap that fills and empties its runs
// meets the lock of the spans once for many objects.
void MediumRuns::keep_or_release(Gap* whole) {
  constexpr unsigned kShare = 4;
  if (limits::tight() || empty_ > 1 + (run_count_ - empty_) / kShare) release(whole);
}

void MediumRuns::release(Gap* whole) {
  MediumRun* const run = whole->run;
  const unsigned dirty = run->touched.count_in(whole->row());
  unlist(whole);
  discard(whole);
  remove(run);
  dirty_.add(-static_cast<size_t>(dirty));
  medium::destroy(run, dirty);
}

void MediumRuns::give_back_empty() {
  gaps_.for_each(1, [&](Gap* gap) {
    if (is_whole(gap)) release(gap);
    return empty_ != 0;
  });
}

bool MediumRuns::is_half_free(const Gap* gap, unsigned pages) {
  const MediumRun* const run = gap->run;
  const unsigned resident = run->touched.count_in(gap->row());
  return resident >= pages && 2 * resident >= run->touched.count_in({0, run->pages});
}

// A run that is mostly in use may have hundreds of gaps, and whoever looks here looks at other
// heaps, too. So it sees the shortest ones alone, and goes on only where a run without objects is
// sure.
Gap* MediumRuns::find_to_spare(unsigned pages) const {
  constexpr unsigned kGapLooks = 64;
  Gap* found = nullptr;
  unsigned looks = 0;
  gaps_.for_each(pages, [&](Gap* gap) {
    const bool sees = looks++ < kGapLooks;
    if (is_whole(gap) || (sees && is_half_free(gap, pages))) found = gap;
    return found == nullptr && (sees || empty_ != 0);
  });
  return found;
}

bool MediumRuns::take_over(MediumRuns& other, unsigned pages, bool sparse, HeapId owner,
                           size_t* moved) {
  const auto fits = [=](const Gap* gap) { return gap->pages >= pages; };
  Gap* const found = sparse ? other.find_to_spare(pages) : other.gaps_.find_any(pages, fits);
  if (found == nullptr) return false;
  MediumRun* const run = found->run;
  medium::set_owner(run, owner);
  other.remove(run);
  add(run);
  unsigned objects = 0;
  unsigned object_pages = 0;
  unsigned gaps = 0;
  for (unsigned page = 0; page < run->pages;) {
    const uint32_t index = run->words[page].gap();
    if (index == 0) {
      const unsigned length = run->words[page].object().pages;
      page += length;
      object_pages += length;
      ++objects;
      continue;
    }
    auto* const gap = metadata::at_index<Gap>(index);
    const auto dirty = static_cast<size_t>(run->touched.count_in(gap->row()));
    other.unlist(gap);
    other.dirty_.add(-dirty);
    list(gap);
    dirty_.add(dirty);
    page += gap->pages;
    ++gaps;
  }
  other.objects_ -= objects;
  objects_ += objects;
  // As many descriptors come along as objects and the run: those of the gaps, and spares.
  other.descriptors_ -= objects + 1;
  descriptors_ += objects + 1;
  for (; gaps != objects + 1; ++gaps) {
    Gap* const spare = other.spares_;
    other.spares_ = spare->next;
    discard(spare);
  }
  other.see_less();
  *moved = object_pages * kRunPage;
  return true;
}

size_t MediumRuns::purge_gap(Gap* gap, Round round) {
  MediumRun* const run = gap->run;
  if (is_whole(gap)) {
    if (round == Round::kAll || run->waited) {
      release(gap);
      return 0;
    }
    run->waited = true;
  }
  if (get(options.thp) == kHugePrefer) return 0;
  unsigned found = 0;
  unsigned purged = 0;
  PageRow rows[kMostDiscards];  // the first `found` are set
  // The system refuses if the program has locked its memory: the pages are to stay.
  const auto discard_found = [&] {
    const uint64_t done = discard_all(found, [&](unsigned i) {
      return Discard{run->address_of(rows[i].first), rows[i].count * kRunPage};
    });
    for (unsigned i = 0; i < found; ++i) {
      if ((done >> i & 1) == 0) continue;
      run->touched.remove(rows[i]);
      purged += rows[i].count;
    }
    found = 0;
  };
  (round == Round::kIdle ? run->idle : run->touched).for_each_row(gap->row(), [&](PageRow row) {
    if (found == kMostDiscards) discard_found();
    rows[found++] = row;
  });
  discard_found();
  run->idle.copy(run->touched, gap->row());
  dirty_.add(-static_cast<size_t>(purged));
  const size_t bytes = purged * kRunPage;
  if (bytes != 0) span::recount(bytes, 0);
  return bytes;
}

size_t MediumRuns::purge(Round round, const os::Lock* own, const os::Lock* awaited, size_t most) {
  size_t purged = 0;
  see_less();
  if (rests()) return 0;
  gaps_.for_each(1, [&](Gap* gap) {
    purged += purge_gap(gap, round);
    return purged < most && (own == nullptr || !own->has_sleepers()) &&
           (awaited == nullptr || !awaited->has_sleepers());
  });
  told_.see_all(dirty_pages() * kRunPage);
  return purged;
}

// What was free at one round and the next goes: after three to six ticks. A large surplus goes
// sooner, as that of free spans does.
size_t MediumRuns::tick(uint32_t now) {
  constexpr uint32_t kBetween = (span::kDecayTicks + 1) / 2;
  if (rests()) return 0;
  const bool plenty = dirty_pages() > (pages() - dirty_pages()) / span::kPlentyShare;
  if (now - last_round_ < (plenty ? 1 : kBetween)) return 0;
  last_round_ = now;
  return purge(Round::kIdle, nullptr, nullptr, ~size_t{0});
}

// The gaps and objects of each run tile it, no two gaps are neighbours, and the sums are right.
void MediumRuns::check(HeapId owner) const {
  if (!kDebug) return;
  unsigned empty = 0;
  unsigned count = 0;
  unsigned objects = 0;
  size_t dirty = 0;
  for (const MediumRun* run = runs_.front(); run != nullptr; run = run->next, ++count) {
    LOFT_CHECK(pagemap.of(reinterpret_cast<const void*>(run->base)).owner() == owner);
    bool gap_before = false;
    for (unsigned page = 0; page < run->pages;) {
      const uint32_t index = run->words[page].gap();
      LOFT_CHECK((index != 0) != (run->words[page].object().pages != 0));
      LOFT_CHECK(index == 0 || !gap_before);
      gap_before = index != 0;
      if (index == 0) {
        page += run->words[page].object().pages;
        ++objects;
        continue;
      }
      const auto* gap = metadata::at_index<Gap>(index);
      LOFT_CHECK(gap->run == run && gap->first == page);
      LOFT_CHECK(run->words[page + gap->pages - 1].gap() == index);
      dirty += run->touched.count_in(gap->row());
      empty += is_whole(gap) ? 1u : 0u;
      page += gap->pages;
      LOFT_CHECK(page <= run->pages);
    }
  }
  LOFT_CHECK(count == run_count_ && empty == empty_ && dirty == dirty_.get());
  LOFT_CHECK(objects == objects_ && descriptors_ >= objects_ + run_count_);
}

}  // namespace loft
