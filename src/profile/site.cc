#include "profile/site.h"

#include <new>

#include "base/macros.h"
#include "space/metadata.h"

namespace loft::profile {

namespace {

constexpr unsigned kSiteBucketLog = 13;
constexpr size_t kSiteTableBytes = sizeof(Site*) << kSiteBucketLog;
static_assert(kSiteTableBytes <= kMetadataMaxBlock);

constinit Site** site_table = nullptr;
// Release pairs with the acquire in newest_site: whoever finds a site finds it complete.
constinit Atomic<Site*> newest{nullptr};

uint64_t hash_of(const uintptr_t* frames, unsigned depth) {
  uint64_t hash = depth;
  for (unsigned i = 0; i < depth; ++i) {
    hash = (hash ^ frames[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

bool is_of(const Site* site, const uintptr_t* frames, unsigned depth) {
  return site->depth == depth &&
         __builtin_memcmp(site->frames(), frames, depth * sizeof(*frames)) == 0;
}

}  // namespace

Site* site_of(const uintptr_t* frames, unsigned depth) {
  if (LOFT_UNLIKELY(site_table == nullptr)) {
    site_table = static_cast<Site**>(metadata::allocate(kSiteTableBytes));
    if (site_table == nullptr) return nullptr;
  }
  const uint64_t hash = hash_of(frames, depth);
  Site*& first = site_table[hash >> (64 - kSiteBucketLog)];
  for (Site* site = first; site != nullptr; site = site->next) {
    if (site->hash == hash && is_of(site, frames, depth)) return site;
  }
  void* const memory = metadata::allocate(sizeof(Site) + depth * sizeof(*frames));
  if (LOFT_UNLIKELY(memory == nullptr)) return nullptr;
  Site* const site = new (memory) Site{};
  site->older = newest.load(memory_order_relaxed);
  site->next = first;
  site->hash = hash;
  site->depth = depth;
  __builtin_memcpy(site->frames(), frames, depth * sizeof(*frames));
  first = site;
  newest.store(site, memory_order_release);
  return site;
}

Site* newest_site() { return newest.load(memory_order_acquire); }

}  // namespace loft::profile
