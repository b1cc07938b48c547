// What a profile is written from: the sites, and which of their figures.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/site.h"

namespace loft::profile {

// The moment whose memory in use is told. kLeaks: what was counted of it (Site::lost).
enum class Moment : uint8_t { kNow, kPeak, kLeaks };

struct Figures {
  uint64_t allocated_objects;
  uint64_t allocated_bytes;
  uint64_t used_objects;
  uint64_t used_bytes;
};

// How long objects lived that were sampled and freed, on average; 0: none was freed.
uint64_t mean_lifetime_us(const Site& site);

// Read beside threads that allocate: no difference is negative.
Figures figures_of(const Site& site, Moment moment);

// Writes the profile in the format of pprof (profile.proto), compressed. Returns 0 or an error.
// Any thread and signal handlers; takes no lock.
int write_pprof(int file, Moment moment);

// Writes a line for each site with memory in use: its frames from the outermost on, with semicolons
// between them, and the bytes. A frame is a file and an offset in it.
int write_collapsed(int file, Moment moment);

}  // namespace loft::profile
