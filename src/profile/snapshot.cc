#include "profile/snapshot.h"

#include "base/bits.h"
#include "profile/poisson.h"

namespace loft::profile {

Figures figures_of(const Site& site, Moment moment) {
  // Freed first: what is freed between the two reads was allocated before.
  const uint64_t freed_objects = site.freed.objects.get();
  const uint64_t freed_bytes = site.freed.bytes.get();
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t objects = site.allocated.objects.get();
  const uint64_t bytes = site.allocated.bytes.get();
  const auto whole = [](uint64_t weighted) {
    return nearest(static_cast<double>(weighted) / kWeightUnit);
  };
  if (moment == Moment::kNow) {
    return {whole(objects), bytes, whole(objects - least(objects, freed_objects)),
            bytes - least(bytes, freed_bytes)};
  }
  const Amount& used = moment == Moment::kPeak ? site.at_peak : site.lost;
  return {whole(objects), bytes, whole(used.objects.get()), used.bytes.get()};
}

}  // namespace loft::profile
