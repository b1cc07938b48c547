// Resident memory by use: a walk along the pagemap, matched with the answers of os/residency.h. It
// takes no lock while others write. Memory whose entry is just changing may be counted in the wrong
// category; the walk goes on.
#pragma once

#include <cstddef>

#include "base/size_class.h"

namespace loft {

struct Residents {
  size_t classes[kSizeClasses];  // resident bytes of the slabs of each class
  size_t user_heaps;             // of heaps of the program's own
  size_t free;                   // of everything else, except large objects
  size_t metadata;               // of the metadata region and the pagemap
  size_t huge;                   // of all resident bytes, large objects included, in huge pages

  size_t free_in_runs;  // resident bytes of medium runs behind and between their objects

  // Medium and large objects, and sampled ones of any length, resident or not.
  size_t live_objects;
  size_t asked;    // bytes that the program requested of those in use
  size_t live;     // bytes of those in use: whole pages
  size_t kept;     // bytes of those in caches
  size_t touched;  // resident bytes of live and kept ones
  size_t behind;   // resident bytes behind their ends, up to the next granule
};

// All zero before the first allocation.
Residents look_at_residents();

}  // namespace loft
