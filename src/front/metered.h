// The slow paths of malloc while a profile is taken (profile/). Objects in slabs come from the
// second bins of the thread's block (meter/meter.h); all others are charged here, one by one.
#pragma once

#include <cstddef>

#include "cache/bins.h"
#include "large/large.h"
#include "profile/progress.h"

namespace loft {

// Starts to take samples, or stops, by the options. Any thread, any time; also at start.
void follow_profile_options();

// For hardened=guard: from now on the blocks stay turned to their second bins, with or without a
// profile, and a sample is an object between guards. When the library is loaded.
void meter_for_good();

// An object above 32 KiB. Returns one on which the sample has fallen, or nullptr: the caller goes
// on. *is_due: the sample has fallen on the object that the caller is about to allocate.
void* sample_long(size_t size, size_t alignment, bool zeroed, bool* is_due);
void mark_sampled(void* object, size_t asked);

// Another length for a sampled object, where it is. False: the caller copies it, as a new object.
bool resize_sampled(void* p, Entry entry, size_t size);

// free of a sampled object: medium::is_sampled(entry). Stops the program as free_medium does.
void free_sampled(void* p, Entry entry);

// Before a sampled large object is released.
void forget_large(Large* object);

// As large::resize or large::expand, which is `how`.
void* resize_metered(Large* object, size_t asked, void* (*how)(Large* object, size_t asked));

// A charge for an object that a path takes by itself. Not passed: a sample falls on it, and the
// ordinary path, which samples, is to be taken.
class Charge {
 public:
  explicit Charge(size_t bytes)
      : bytes_(LOFT_UNLIKELY(profile::on()) ? bytes : 0),
        passes_(bytes_ == 0 || profile::passes(bytes_)) {}
  bool passes() const { return passes_; }
  // Returns the object, and takes the charge back if there is none.
  void* for_what_is(void* object) const {
    if (object == nullptr && bytes_ != 0) profile::give_back(bytes_);
    return object;
  }

 private:
  size_t bytes_;
  bool passes_;
};

}  // namespace loft
