// The policies while samples are taken (profile/): what a profile does to malloc and free. Objects
// in slabs come from the second bins of the thread's block (sampling/meter.h); all others are
// charged here, one by one. Once a profile was on, these policies stay, and do what the core's do
// while it is off. hardened=guard takes samples, too, and has these functions where it has none of
// its own.
#pragma once

#include <cstddef>

#include "cache/guest.h"
#include "malloc/policy.h"

namespace loft {

// Starts to take samples, or stops, by the options. Any thread, any time; also at start.
void follow_profile_options();

// For hardened=guard, when the library is loaded: a sample is an object between guards, which
// `make` makes; nullptr if there are too many, or without memory. False if the system refuses.
using MakeGuarded = void* (*)(size_t asked, size_t alignment, Maker maker);
bool sample_by(MakeGuarded make);
// From now on the blocks stay turned to their second bins, with or without a profile.
void sample_for_good();

// As in Policy.
void* refill_sampled(ThreadCache* thread, ObjectRequest request);  // while blocks are turned
void free_metered(void* p);
void* reallocate_metered(void* p, size_t size);
bool expand_metered(const char* call, void* p, size_t size);
void write_refused(size_t bytes);

// Makes a row of the core's one that samples, but for its refill.
void sample_in(Policy* row);

// Before a sampled large object is released.
void forget_large(Large* object);

// What the core calls.
extern LOFT_HIDDEN const Guest sampling_guest;

}  // namespace loft
