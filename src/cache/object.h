// What lies at an address: the checks that every entry point but the fast paths makes before it
// believes a pointer, and the way from an interior pointer to its object (ISMM'19 2.4).
#pragma once

#include <cstddef>

#include "heap/heap.h"
#include "slab/slab.h"
#include "space/pagemap.h"

namespace loft {

struct ObjectRange {
  void* start;
  size_t size;  // usable bytes
};

// {nullptr, 0} if p does not point into an object's place in a slab or into a large object. Whether
// the object is allocated at the moment is the caller's to know.
ObjectRange object_of(const void* p);

// The slow sides of the two below.
Entry checked_entry_slow(const char* call, const void* p);
void check_start_slow(const char* call, const void* p, Entry entry);

// The pagemap entry of a pointer that `call` was given: a slab's, a large object's or an extent's.
// Anything else is reported in one line, which stops the program, or, by the option foreign=ignore,
// gives an entry of kind kNothing.
inline Entry checked_entry(const char* call, const void* p) {
  if (LOFT_LIKELY(pagemap.limit.contains(pagemap.position(p)))) {
    const Entry entry = pagemap.of(p);
    if (LOFT_LIKELY(entry.is_slab())) return entry;
  }
  return checked_entry_slow(call, p);
}

// Stops the program with one line if p, whose entry is a slab's or a large object's, is not the
// first byte of an object.
inline void check_start(const char* call, const void* p, Entry entry) {
  if (LOFT_LIKELY(entry.is_slab())) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - slab::base_of(p, entry);
    const Geometry& shape = geometry(class_of_bin(entry.bin()));
    if (LOFT_LIKELY(object_starting_at(shape, offset) != kNoObject)) return;
  }
  check_start_slow(call, p, entry);
}

// What free's fast path has no instructions for: stops the program with one line if p, of a heap
// whose lock is free, is not the first byte of an object, or if that is free already, in its slab
// or as one of cached[1 .. count].
void check_freed(Heap* heap, void* const* cached, unsigned count, const void* p);

}  // namespace loft
