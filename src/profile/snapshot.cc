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
  const bool peak = moment == Moment::kPeak;
  const auto whole = [](uint64_t weighted) {
    return static_cast<uint64_t>(static_cast<double>(weighted) / kWeightUnit + 0.5);
  };
  return {whole(objects), bytes,
          whole(peak ? site.at_peak.objects.get() : objects - least(objects, freed_objects)),
          peak ? site.at_peak.bytes.get() : bytes - least(bytes, freed_bytes)};
}

}  // namespace loft::profile
