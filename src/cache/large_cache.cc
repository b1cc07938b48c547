#include "cache/large_cache.h"

#include "base/options.h"
#include "cache/large_transfer.h"
#include "os/fault.h"
#include "os/os.h"
#include "space/limits.h"
#include "space/span.h"

static_assert(loft::kLargePlaces <= 8 * sizeof(loft::LargeCache::used));
static_assert(loft::large_cache::kLongest >> loft::kGranuleLog <= UINT8_MAX);

namespace loft::large_cache {

namespace {

void fill(Thread* thread, unsigned place, Large* object) {
  LargeCache& cache = thread->large;
  object->kept = true;
  cache.kept[place] = object;
  cache.granules[place] = static_cast<uint8_t>(object->granules);
  thread->counters.large_kept_bytes.add(object->bytes);
}

LOFT_ALWAYS_INLINE Large* empty(Thread* thread, unsigned place) {
  LargeCache& cache = thread->large;
  Large* object = cache.kept[place];
  LOFT_CHECK(object->kept && cache.granules[place] == object->granules);
  cache.granules[place] = 0;
  cache.kept[place] = nullptr;
  compiler_fence();  // out of its place before its mark can change, for inherit
  thread->counters.large_kept_bytes.add(-object->bytes);
  return object;
}

void release_place(Thread* thread, unsigned place) {
  if (thread->large.kept[place] == nullptr) return;
  large::release(empty(thread, place), &thread->large.spare);
}

// Advances to the next place and returns its object to the spans.
unsigned next_place(Thread* thread) {
  LargeCache& cache = thread->large;
  cache.last = (cache.last + 1) % kLargePlaces;
  release_place(thread, cache.last);
  return cache.last;
}

// While memory is tight, releases all kept objects: they may use the memory that is needed. True if
// memory is tight.
bool empty_if_tight(Thread* thread) {
  if (LOFT_LIKELY(!limits::tight())) return false;
  release_all(thread);
  large_transfer::release_all();
  return true;
}

// False if the object would become longer and thereby exceed the hard limit.
bool may_be(const Large* object, size_t bytes) {
  return object->bytes == bytes || span::recount(object->bytes, bytes);
}

// A place with an object of that many granules; 0 finds an empty place. Prefers the last place,
// then the first match. kLargePlaces if there is none.
unsigned place_of(const LargeCache& cache, size_t granules) {
  if (LOFT_LIKELY(cache.granules[cache.last] == granules)) return cache.last;
  unsigned place = 0;
  while (place < kLargePlaces && cache.granules[place] != granules) ++place;
  return place;
}

// Takes an object with the number of granules that `bytes` needs, counted as `bytes`. nullptr if
// there is none.
Large* take_kept(Thread* thread, size_t bytes) {
  LargeCache& cache = thread->large;
  const unsigned place = place_of(cache, large::granules_for(bytes));
  if (place == kLargePlaces || !may_be(cache.kept[place], bytes)) return nullptr;
  cache.last = place;  // the next kept object goes here
  cache.used = static_cast<uint16_t>(cache.used | 1u << place);
  return empty(thread, place);
}

// The same for an object that another thread passed on.
Large* take_passed_on(Thread* thread, size_t bytes) {
  Large* object = large_transfer::take(bytes);
  if (object == nullptr || may_be(object, bytes)) return object;
  large::release(object, &thread->large.spare);
  return nullptr;
}

}  // namespace

void* take(Thread* thread, size_t asked) {
  LargeCache& cache = thread->large;
  const size_t bytes = round_up(asked, os::page_size());
  empty_if_tight(thread);
  cache.credit = least(cache.credit + 1u, kLargePlaces);
  Large* object = take_kept(thread, bytes);
  if (object == nullptr) object = take_passed_on(thread, bytes);
  if (object == nullptr) return nullptr;
  thread->counters.large_hits.add(1);
  large::use_again(object, bytes, asked);
  return reinterpret_cast<void*>(object->base);
}

bool keep(Thread* thread, Large* object) {
  LargeCache& cache = thread->large;
  const size_t budget = get(options.cache_bytes);
  if (LOFT_UNLIKELY(empty_if_tight(thread))) return false;
  if (object->bytes > least(kLongest, budget)) return false;
  if (cache.credit == 0) return large_transfer::put(object);
  --cache.credit;
  const Counter& kept_bytes = thread->counters.large_kept_bytes;
  unsigned place = place_of(cache, 0);
  if (place == kLargePlaces) place = next_place(thread);
  while (kept_bytes.get() + object->bytes > budget) place = next_place(thread);
  cache.last = place;
  fill(thread, place, object);
  return true;
}

void release_all(Thread* thread) {
  for (unsigned i = 0; i < kLargePlaces; ++i) next_place(thread);
  large::release_descriptors(&thread->large.spare);
}

void inherit(Thread* dead) {
  for (Large* object : dead->large.kept) {
    // One that is not marked is on its way into its place, or out of it.
    if (object != nullptr && object->kept) large::release(object);
  }
  dead->large = LargeCache{};
  dead->counters.large_kept_bytes.add(-dead->counters.large_kept_bytes.get());
}

void review(Thread* thread) {
  LargeCache& cache = thread->large;
  for (unsigned place = 0; place < kLargePlaces; ++place) {
    if ((cache.used >> place & 1) == 0) release_place(thread, place);
  }
  cache.used = 0;
  if (LOFT_UNLIKELY(limits::tight())) large_transfer::release_all();
}

}  // namespace loft::large_cache
