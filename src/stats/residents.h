// What the system has put behind each kind of thing in the heap: a walk along the pagemap, beside
// the answers of os/residency.h. Reads what others write, without a lock; what it finds in the
// midst of a change it counts as something it is not, and goes on.
#pragma once

#include <cstddef>

#include "base/size_class.h"

namespace loft {

struct Residents {
  size_t classes[kSizeClasses];  // bytes of the slabs of each class
  size_t user_heaps;             // of heaps of the program's own
  size_t free;                   // of what is none of these, nor a large object
  size_t metadata;               // of the metadata region and the pagemap
  size_t huge;                   // of all these, in huge pages

  // Large objects, resident or not.
  size_t live_objects;
  size_t asked;    // by the program, of those that it has
  size_t live;     // their bytes: whole pages
  size_t kept;     // bytes of those in caches
  size_t touched;  // of live and kept ones, resident
  size_t tails;    // resident behind their ends, up to the next granule
};

// All zero before the first allocation.
Residents look_at_residents();

}  // namespace loft
