// The policies while samples are taken (profile/): what a profile does to malloc and free. Objects
// in slabs come from the second bins of the thread's block (meter/meter.h); all others are charged
// here, one by one. Once a profile was on, these policies stay, and do what the core's do while it
// is off. hardened=guard takes samples, too, and has these functions where it has none of its own.
#pragma once

#include <cstddef>

#include "cache/guest.h"
#include "front/policy.h"

namespace loft {

// Starts to take samples, or stops, by the options. Any thread, any time; also at start.
void follow_profile_options();

// For hardened=guard: from now on the blocks stay turned to their second bins, with or without a
// profile, and a sample is an object between guards. When the library is loaded.
void meter_for_good();

// As in Policy.
void* refill_sampled(Thread* thread, Request request);  // while blocks are turned
void* take_zero_metered(Request request);
void* allocate_long_metered(size_t size, size_t alignment, bool zeroed, Maker maker);
void free_metered(void* p);
void* reallocate_metered(void* p, size_t size);
bool expand_metered(const char* call, void* p, size_t size);
void write_refused(size_t bytes);

// Before a sampled large object is released.
void forget_large(Large* object);

// What the core calls.
extern LOFT_HIDDEN const Guest sampling;

}  // namespace loft
