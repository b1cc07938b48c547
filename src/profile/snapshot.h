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

// What has changed. Memory in use may have become less; then the number is below zero, as two's
// complement, which the format has, too. What was allocated is never less than before: the estimate
// of it falls a little where a large object grows in its place, and that is no change.
Figures difference(const Figures& now, const Figures& before);

// The figures of all sites at an earlier moment, from the newest site of that moment on.
struct Earlier {
  const Site* newest = nullptr;
  Figures* figures = nullptr;
  size_t count = 0;
  uint64_t time_ns = 0;  // of os::now_ns
};

// Reads the figures of now into `earlier`, which is empty. False without memory, or if there are
// more than `most` sites.
bool remember(Earlier& earlier, size_t most);
void forget(Earlier& earlier);

// What a profile in the format of pprof tells.
struct Told {
  Moment moment = Moment::kNow;
  // Which of its figures readers show if they are not asked for another one.
  bool shows_allocated = false;
  // What is told are the differences from that moment on; memory in use may have become less.
  const Earlier* since = nullptr;
};

// Writes the profile in the format of pprof (profile.proto), compressed. Returns 0 or an error.
// Any thread and signal handlers; takes no lock.
int write_pprof(int file, const Told& told);

// Writes a line for each site with memory in use: its frames from the outermost on, with semicolons
// between them, and the bytes. A frame is a file and an offset in it.
int write_collapsed(int file, Moment moment);

}  // namespace loft::profile
