// The guarded samples of hardened=guard: now and then an object lies alone between pages that can
// be neither read nor written, and when it is freed, its own page becomes such a page, too, until
// some hundreds more were freed. A program that goes beyond it, or uses it later, gets a fault, and
// loft says where the object was allocated, freed and used.
//
// Any thread may call any function, but no two calls may use one object at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "base/text.h"
#include "cache/bins.h"
#include "heap/large.h"

namespace loft::hardened {

// Once, when the library is loaded. False without memory.
bool begin_samples();

// nullptr if there are too many, or without memory: the caller goes on without.
void* make_sample(size_t asked, size_t alignment, Maker maker);

// Before the sample is released. Stops the program if what lies around the object in its page was
// written to, or `call`, which frees objects of `maker`, does not fit.
void end_sample(const char* call, Maker maker, Large* sample);

// Gives the object another length in its pages, where it is. False if it does not fit. Stops the
// program as end_sample does.
bool resize_in_pages(const char* call, Large* sample, size_t asked);

// Stops the program if there was a sample at p, which was freed.
void report_if_freed(const char* call, const void* p);

}  // namespace loft::hardened
