// Finds what lies at an address: the pointer checks of every entry point except the fast paths, and
// the way from an interior pointer to its object (ISMM'19 2.4).
#pragma once

#include <cstddef>

#include "cache/guest.h"
#include "slab/slab.h"
#include "space/pagemap.h"

namespace loft {

class Heap;

// {nullptr, 0} if p does not point into the place of an object in a slab, or into a large object.
// The caller must know whether the object is allocated.
ObjectRange object_of(const void* p);

// The slow sides of checked_entry and check_start.
Entry checked_entry_slow(const char* call, const void* p);
void check_start_slow(const char* call, const void* p, Entry entry);

// The pagemap entry of a pointer that was passed to `call`: of a slab, a large object or an extent.
// Any other pointer is reported in one line, which stops the program or, with the option
// misuse=continue, yields an entry of kind kNothing.
inline Entry checked_entry(const char* call, const void* p) {
  if (LOFT_LIKELY(pagemap.limit.contains(pagemap.position(p)))) {
    const Entry entry = pagemap.of(p);
    if (LOFT_LIKELY(entry.is_slab())) return entry;
  }
  return checked_entry_slow(call, p);
}

// The shape of the slab of `entry`, p's, if an object starts at p; else nullptr.
LOFT_ALWAYS_INLINE const Geometry* shape_at_start(const void* p, Entry entry) {
  const Geometry* shape = &geometry_of_bin(entry.bin());
  const auto at = reinterpret_cast<uintptr_t>(p);
  if (LOFT_LIKELY(shape->granules == 1)) {
    // Wherever p is in its granule, it is in the slab.
    return LOFT_LIKELY(starts_in(product_of(at % kGranule, shape->inverse), shape->start_limit))
               ? shape
               : nullptr;
  }
  LOFT_FORGET(shape);  // or what both ways load comes before they part
  const bool starts = object_starting_at(*shape, at - slab::at(entry)->base) != kNoObject;
  return LOFT_LIKELY(starts) ? shape : nullptr;
}

// Stops the program with one line if p is not the first byte of an object. `entry` is p's, of a
// slab or a large object.
inline void check_start(const char* call, const void* p, Entry entry) {
  if (LOFT_LIKELY(entry.is_slab())) {
    if (LOFT_LIKELY(shape_at_start(p, entry) != nullptr)) return;
  }
  check_start_slow(call, p, entry);
}

// Stops the program over a free of p. p lies in a slab, but (a) no object starts there or (b) the
// object is free already. By its type the function returns, so that a fast path may end in the call
// and save no register.
LOFT_OPAQUE void report_bad_free(const void* p);

// The checks that free's fast path omits. Stops the program with one line if p (a) is not the first
// byte of an object, or (b) is already free, in its slab or as one of cached[1 .. count]. p is of
// `heap`, whose lock the caller must not hold.
void check_freed(Heap* heap, void* const* cached, unsigned count, const void* p);

}  // namespace loft
