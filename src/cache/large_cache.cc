#include "cache/large_cache.h"

#include "base/options.h"
#include "space/limits.h"
#include "space/span.h"

static_assert(loft::kLargePlaces <= 8 * sizeof(loft::LargeCache::used));

namespace loft::large_cache {

namespace {

// Longer ones are rare, and for them a lock is little beside the touching of their pages.
constexpr size_t kLongest = size_t{1} << 20;

// Each change of a place is one store: the heir of a thread that died in a fork finds in it what is
// kept, or nothing.
Large* empty(Thread* thread, unsigned place) {
  LargeCache& cache = thread->large;
  Large* object = cache.kept[place];
  cache.kept[place] = nullptr;
  compiler_fence();
  thread->counters.large_kept_bytes.add(-object->bytes);
  return object;
}

void give_back(Thread* thread, unsigned place) {
  if (thread->large.kept[place] == nullptr) return;
  large::release(empty(thread, place), &thread->large.spare);
}

// Moves on to the next place, and gives back what is kept there.
unsigned next_place(Thread* thread) {
  LargeCache& cache = thread->large;
  cache.last = (cache.last + 1) % kLargePlaces;
  give_back(thread, cache.last);
  return cache.last;
}

}  // namespace

void* take(Thread* thread, size_t bytes, size_t asked) {
  LargeCache& cache = thread->large;
  // What was kept while there was plenty may be in the way.
  if (LOFT_UNLIKELY(limits::tight())) release_all(thread);
  cache.credit = least(cache.credit + 1u, kLargePlaces);
  const size_t granules = large::granules_for(bytes);
  for (unsigned look = 0; look < kLargePlaces; ++look) {
    const unsigned place = (cache.last + look) % kLargePlaces;
    Large* object = cache.kept[place];
    if (object == nullptr || object->granules != granules) continue;
    // Longer than it was, and over the hard limit by that.
    if (object->bytes != bytes && !span::recount(object->bytes, bytes)) continue;
    empty(thread, place);
    cache.last = place;  // the next one kept comes here
    cache.used = static_cast<uint16_t>(cache.used | 1u << place);
    thread->counters.large_hits.add(1);
    large::use_again(object, bytes, asked);
    return reinterpret_cast<void*>(object->base);
  }
  return nullptr;
}

bool keep(Thread* thread, Large* object) {
  LargeCache& cache = thread->large;
  const size_t budget = get(options.cache_bytes);
  if (LOFT_UNLIKELY(limits::tight())) {
    release_all(thread);
    return false;
  }
  if (cache.credit == 0 || object->bytes > least(kLongest, budget)) return false;
  --cache.credit;
  const Counter& kept_bytes = thread->counters.large_kept_bytes;
  unsigned place = cache.kept[cache.last] == nullptr ? cache.last : next_place(thread);
  while (kept_bytes.get() + object->bytes > budget) place = next_place(thread);
  object->kept = true;
  compiler_fence();
  cache.kept[place] = object;
  thread->counters.large_kept_bytes.add(object->bytes);
  return true;
}

void release_all(Thread* thread) {
  for (unsigned i = 0; i < kLargePlaces; ++i) next_place(thread);
  large::release_descriptors(&thread->large.spare);
}

void review(Thread* thread) {
  LargeCache& cache = thread->large;
  for (unsigned place = 0; place < kLargePlaces; ++place) {
    if ((cache.used >> place & 1) == 0) give_back(thread, place);
  }
  cache.used = 0;
}

}  // namespace loft::large_cache
