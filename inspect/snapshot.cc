#include "inspect/snapshot.h"

#include "base/bits.h"
#include "profile/poisson.h"

namespace loft::inspect {

Figures figures_of(const profile::Site& site, profile::Moment moment) {
  // Freed first: what is freed between the two reads was allocated before.
  const uint64_t freed_objects = site.freed.objects.get();
  const uint64_t freed_bytes = site.freed.bytes.get();
  thread_fence(memory_order_acquire);
  const uint64_t objects = site.allocated.objects.get();
  const uint64_t bytes = site.allocated.bytes.get();
  // Whole numbers: the program may have had its threads trap what a division of others rounds.
  const auto whole = [](uint64_t weighted) {
    constexpr auto kUnit = static_cast<uint64_t>(profile::kWeightUnit);
    return weighted / kUnit + (weighted % kUnit >= kUnit / 2 ? 1 : 0);
  };
  if (moment == profile::Moment::kNow) {
    return {whole(objects), bytes, whole(objects - least(objects, freed_objects)),
            bytes - least(bytes, freed_bytes)};
  }
  const profile::Amount& used = moment == profile::Moment::kPeak ? site.at_peak : site.lost;
  return {whole(objects), bytes, whole(used.objects.get()), used.bytes.get()};
}

// Of a moment between the two counts, an object too many makes no difference.
uint64_t mean_lifetime_us(const profile::Site& site) {
  const size_t samples = site.freed_samples.get();
  return samples == 0 ? 0 : most<uint64_t>(site.lifetime_us.get() / samples, 1);
}

}  // namespace loft::inspect
