// What a profile is written from: the sites, and which of their figures.
#pragma once

#include <stdint.h>

#include "profile/site.h"

namespace loft::inspect {

struct Figures {
  uint64_t allocated_objects;
  uint64_t allocated_bytes;
  uint64_t used_objects;
  uint64_t used_bytes;
};

// How long objects lived that were sampled and freed, on average; 0: none was freed.
uint64_t mean_lifetime_us(const profile::Site& site);

// Read beside threads that allocate: no difference is negative.
Figures figures_of(const profile::Site& site, profile::Moment moment);

}  // namespace loft::inspect
