#include "profile/samples.h"

#include <new>

#include "base/bits.h"
#include "base/keep.h"
#include "base/probe.h"
#include "files/inspect.h"
#include "heap/large.h"
#include "heap/registry.h"
#include "os/lock.h"
#include "os/os.h"
#include "profile/poisson.h"
#include "profile/progress.h"
#include "space/metadata.h"
#include "space/pagemap.h"

namespace loft::profile {

struct Sample {
  uintptr_t address;
  Sample* next;  // in its bucket, or of the unused ones
  Site* site;
  uint64_t asked;
  uint64_t charged;
  uint64_t weight;
  uint64_t time_ns;
  void* kept;  // kept for it, where it would lie were it not sampled; nullptr: none
};
static_assert(sizeof(Sample) <= kMetadataUnit);

namespace {

constexpr unsigned kBucketLog = 13;
constexpr size_t kTableBytes = sizeof(Sample*) << kBucketLog;
static_assert(kTableBytes <= kMetadataMaxBlock);

constinit os::Lock lock;  // taken before that of the metadata
constinit Sample** table = nullptr;

// Written under the lock, read by anybody.
constinit Counter live_samples;
constinit Counter in_use_bytes;
constinit Counter peak_bytes;
constinit Counter lost;
constinit Atomic<bool> counted_lost{false};  // relaxed: a hint for who writes a profile

Sample*& bucket_of(const void* p) {
  const uint64_t hash = (reinterpret_cast<uintptr_t>(p) >> 4) * 0x9E3779B97F4A7C15u;
  return table[hash >> (64 - kBucketLog)];
}

uint64_t weight_for(uint64_t bytes, uint64_t mean) {
  const KeepFloat keep;
  return weight_of(bytes, mean);
}

uint64_t weighted(uint64_t bytes, uint64_t weight) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{bytes} * weight / static_cast<uint64_t>(kWeightUnit));
}

// Keeps the profile of the peak. A walk over all sites for each new peak would make a program that
// only grows quadratic, so a peak is a new one a thirty-second part above the last.
void keep_peak() {
  constexpr uint64_t kShare = 32;
  const uint64_t now = in_use_bytes.get();
  const uint64_t kept = peak_bytes.get();
  if (LOFT_LIKELY(now < kept + kept / kShare + 1)) return;
  peak_bytes.add(now - kept);
  for (Site* site = newest_site(); site != nullptr; site = site->older) {
    const uint64_t objects = site->allocated.objects.get() - site->freed.objects.get();
    const uint64_t bytes = site->allocated.bytes.get() - site->freed.bytes.get();
    site->at_peak.add(objects - site->at_peak.objects.get(), bytes - site->at_peak.bytes.get());
  }
}

// Takes the sample of an object out of its bucket. nullptr if there is none.
Sample* remove(const void* p) {
  if (table == nullptr) return nullptr;
  Sample** link = &bucket_of(p);
  while (*link != nullptr && (*link)->address != reinterpret_cast<uintptr_t>(p)) {
    link = &(*link)->next;
  }
  Sample* const sample = *link;
  if (sample != nullptr) *link = sample->next;
  return sample;
}

void insert(const void* p, Sample* sample) {
  sample->address = reinterpret_cast<uintptr_t>(p);
  Sample*& first = bucket_of(p);
  sample->next = first;
  first = sample;
}

void count_in(Sample* sample) {
  const uint64_t bytes = weighted(sample->asked, sample->weight);
  sample->site->allocated.add(sample->weight, bytes);
  in_use_bytes.add(bytes);
  keep_peak();
}

void count_out(const Sample* sample) {
  const uint64_t bytes = weighted(sample->asked, sample->weight);
  sample->site->freed.add(sample->weight, bytes);
  in_use_bytes.add(-bytes);
}

void tell_of_start(const void* p, uint64_t asked, uint64_t weight) {
  LOFT_PROBE3(otel_memory, alloc, p, asked, weighted(asked, weight));
}

bool have_table() {
  if (LOFT_LIKELY(table != nullptr)) return true;
  table = static_cast<Sample**>(metadata::allocate(kTableBytes));
  return table != nullptr;
}

}  // namespace

bool prepare() { return registry::samples_heap() != nullptr; }

bool prepared() { return medium::samples.load(memory_order_relaxed) != kNoHeap; }

bool note(const void* p, size_t asked, size_t charged, void* kept) {
  uintptr_t frames[kMostFrames];
  const auto depth = static_cast<unsigned>(inspect::capture(frames, kMostFrames));
  const uint64_t weight = weight_for(charged, mine().mean);
  const uint64_t now = os::now_ns();
  draw();
  {
    const os::Guard guard(lock);
    Site* const site = have_table() ? site_of(frames, depth) : nullptr;
    void* const memory = site == nullptr ? nullptr : metadata::allocate(sizeof(Sample));
    if (LOFT_UNLIKELY(memory == nullptr)) {
      lost.add(1);
      return false;
    }
    auto* const sample = new (memory) Sample{0, nullptr, site, asked, charged, weight, now, kept};
    insert(p, sample);
    live_samples.add(1);
    count_in(sample);
  }
  tell_of_start(p, asked, weight);
  return true;
}

namespace {

// Pages of its own for an object. nullptr without memory.
void* take_pages(size_t asked, size_t alignment, bool zeroed) {
  bool zero = false;
  void* p = nullptr;
  if (alignment <= os::page_size()) {
    Heap* const samples = registry::samples_heap();
    if (samples == nullptr) return nullptr;
    const os::Guard guard(samples->lock());
    p = samples->take_medium(most<size_t>(asked, 1), false, &zero);
  } else {
    p = large::allocate(most<size_t>(asked, 1), most(alignment, kGranule), &zero);
    if (p != nullptr) large::at(pagemap.of(p))->sampled = true;
  }
  if (p != nullptr && zeroed && !zero) __builtin_memset(p, 0, asked);
  return p;
}

}  // namespace

void release(void* p) {
  if (pagemap.of(p).bin() == kLarge) return large::release(large::at(pagemap.of(p)));
  Heap* const samples = registry::samples_heap();
  const os::Guard guard(samples->lock());
  samples->put_medium(p);
}

void* allocate(size_t asked, size_t alignment, size_t charged, bool zeroed, void* kept) {
  void* const p = take_pages(asked, alignment, zeroed);
  if (LOFT_UNLIKELY(p == nullptr)) return nullptr;
  if (LOFT_LIKELY(note(p, asked, charged, kept)) || kept == nullptr) return p;
  release(p);
  return nullptr;
}

Sample* lift(const void* p) {
  const os::Guard guard(lock);
  return remove(p);
}

// The longer an object, the fewer a sampled one stands for: while one that is not sampled grew, it
// had the chance to become one.
void put_down(Sample* sample, const void* p, size_t asked, size_t charged) {
  if (sample == nullptr) return;
  const uint64_t weight =
      charged > sample->charged ? weight_for(charged, mean_bytes()) : sample->weight;
  tell_of_start(p, asked, weight);  // without the lock: the program does not have the object yet
  const os::Guard guard(lock);
  insert(p, sample);
  const uint64_t before = weighted(sample->asked, sample->weight);
  const uint64_t after = weighted(asked, weight);
  in_use_bytes.add(after - before);
  if (weight == sample->weight && after < before) {
    sample->site->freed.add(0, before - after);
  } else {
    sample->site->allocated.add(weight - sample->weight, after - before);
  }
  sample->asked = asked;
  sample->weight = weight;
  sample->charged = most<uint64_t>(sample->charged, charged);
  keep_peak();
}

void put_back(Sample* sample, const void* p, bool told) {
  if (sample == nullptr) return;
  if (told) tell_of_start(p, sample->asked, sample->weight);
  const os::Guard guard(lock);
  insert(p, sample);
}

void tell_of_end(const Sample* sample) {
  if (sample != nullptr) LOFT_PROBE1(otel_memory, free, sample->address);
}

size_t charged_of(const Sample* sample) { return sample == nullptr ? 0 : sample->charged; }

void* forget(const void* p) {
  const uint64_t now = os::now_ns();
  const os::Guard guard(lock);
  Sample* const sample = remove(p);
  if (sample == nullptr) return nullptr;
  tell_of_end(sample);
  count_out(sample);
  sample->site->freed_samples.add(1);
  sample->site->lifetime_us.add((now - sample->time_ns + 500) / 1000);
  live_samples.add(-1UL);
  void* const kept = sample->kept;
  metadata::release(sample, sizeof(Sample));
  return kept;
}

namespace {

// Under the lock.
template <class Visit>
void for_each_sample(Visit visit) {
  for (size_t i = 0; table != nullptr && i < size_t{1} << kBucketLog; ++i) {
    for (const Sample* sample = table[i]; sample != nullptr; sample = sample->next) visit(*sample);
  }
}

// Under the lock: begins to count anew.
void clear_lost() {
  for (Site* site = newest_site(); site != nullptr; site = site->older) {
    site->lost.add(-site->lost.objects.get(), -site->lost.bytes.get());
  }
  counted_lost.store(true, memory_order_relaxed);
}

}  // namespace

void count_lost(bool (*is_lost)(void* context, const void* p), void* context) {
  const os::Guard guard(lock);
  clear_lost();
  for_each_sample([=](const Sample& sample) {
    if (!is_lost(context, reinterpret_cast<const void*>(sample.address))) return;
    sample.site->lost.add(sample.weight, weighted(sample.asked, sample.weight));
  });
}

void count_waste(uint64_t (*wasted)(void* context, const void* kept), void* context) {
  clear_lost();
  for_each_sample([=](const Sample& sample) {
    const uint64_t bytes = sample.kept == nullptr ? 0 : wasted(context, sample.kept);
    if (bytes != 0) sample.site->lost.add(sample.weight, weighted(bytes, sample.weight));
  });
}

void visit_kept(void (*visit)(void* context, void* kept), void* context) {
  for_each_sample([=](const Sample& sample) {
    if (sample.kept != nullptr) visit(context, sample.kept);
  });
}

uint64_t in_use() { return in_use_bytes.get(); }

bool lost_are_counted() { return counted_lost.load(memory_order_relaxed); }

SampleTotals totals() {
  return {live_samples.get(), in_use_bytes.get(), peak_bytes.get(), lost.get()};
}

os::Lock& changes() {
  static constinit os::Lock of_changes;
  return of_changes;
}

void prepare_fork() { lock.lock(); }

void finish_fork(bool child) { lock.after_fork(child); }

}  // namespace loft::profile
