#include "profile/snapshot.h"

#include "base/bits.h"
#include "files/output.h"
#include "os/os.h"
#include "profile/poisson.h"

namespace loft::profile {

Figures figures_of(const Site& site, Moment moment) {
  // Freed first: what is freed between the two reads was allocated before.
  const uint64_t freed_objects = site.freed.objects.get();
  const uint64_t freed_bytes = site.freed.bytes.get();
  thread_fence(memory_order_acquire);
  const uint64_t objects = site.allocated.objects.get();
  const uint64_t bytes = site.allocated.bytes.get();
  // Whole numbers: the program may have had its threads trap what a division of others rounds.
  const auto whole = [](uint64_t weighted) {
    constexpr auto kUnit = static_cast<uint64_t>(kWeightUnit);
    return weighted / kUnit + (weighted % kUnit >= kUnit / 2 ? 1 : 0);
  };
  if (moment == Moment::kNow) {
    return {whole(objects), bytes, whole(objects - least(objects, freed_objects)),
            bytes - least(bytes, freed_bytes)};
  }
  const Amount& used = moment == Moment::kPeak ? site.at_peak : site.lost;
  return {whole(objects), bytes, whole(used.objects.get()), used.bytes.get()};
}

Figures difference(const Figures& now, const Figures& before) {
  return {now.allocated_objects - least(now.allocated_objects, before.allocated_objects),
          now.allocated_bytes - least(now.allocated_bytes, before.allocated_bytes),
          now.used_objects - before.used_objects, now.used_bytes - before.used_bytes};
}

// Of a moment between the two counts, an object too many makes no difference.
uint64_t mean_lifetime_us(const Site& site) {
  const size_t samples = site.freed_samples.get();
  return samples == 0 ? 0 : most<uint64_t>(site.lifetime_us.get() / samples, 1);
}

bool remember(Earlier& earlier, size_t most) {
  earlier.newest = newest_site();
  earlier.time_ns = os::now_ns();
  size_t count = 0;
  for (const Site* site = earlier.newest; site != nullptr; site = site->older) ++count;
  if (count == 0) return true;
  if (count > most) return false;
  earlier.figures = static_cast<Figures*>(files::borrow(count * sizeof(Figures)));
  if (earlier.figures == nullptr) return false;
  earlier.count = count;
  Figures* to = earlier.figures;
  for (const Site* site = earlier.newest; site != nullptr; site = site->older) {
    *to++ = figures_of(*site, Moment::kNow);
  }
  return true;
}

void forget(Earlier& earlier) {
  files::give_back(earlier.figures, earlier.count * sizeof(Figures));
  earlier = Earlier();
}

}  // namespace loft::profile
