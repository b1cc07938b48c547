// A run: adjacent objects of one slab, freed one after another. They go back into their bitmap word
// together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "slab/geometry.h"

namespace loft {

struct Run {
  unsigned objects;
  uint64_t freed;  // within one word
};

inline unsigned length_of_run(void* const* objects, unsigned most, uintptr_t step) {
  void* const* const end = objects + most;
  void* const* at = objects;
  uintptr_t next = reinterpret_cast<uintptr_t>(objects[0]);
  do {
    next += step;
    ++at;
  } while (at != end && reinterpret_cast<uintptr_t>(*at) == next);
  return static_cast<unsigned>(at - objects);
}

// The run, upwards or downwards, that begins with objects[0], which is number `object` of its slab.
LOFT_ALWAYS_INLINE Run run_from(void* const* objects, void* const* end, uint32_t object,
                                const Geometry& shape) {
  const unsigned bit = object % 64;
  const uintptr_t step = end - objects > 1 ? reinterpret_cast<uintptr_t>(objects[1]) -
                                                 reinterpret_cast<uintptr_t>(objects[0])
                                           : 0;
  // One comparison suffices if the next object is no neighbour above or below.
  if (LOFT_LIKELY(step + shape.size > 2 * size_t{shape.size} || step == 0)) {
    return {1, uint64_t{1} << bit};
  }
  const auto left = static_cast<unsigned>(least<ptrdiff_t>(end - objects, 64));
  if (step == shape.size) {
    const unsigned above = least<unsigned>(64 - bit, shape.objects - object);
    const unsigned length = length_of_run(objects, least(left, above), step);
    return {length, ~uint64_t{0} >> (64 - length) << bit};
  }
  if (step == -uintptr_t{shape.size}) {
    const unsigned length = length_of_run(objects, least(left, bit + 1), step);
    return {length, ~uint64_t{0} >> (64 - length) << (bit + 1 - length)};
  }
  return {1, uint64_t{1} << bit};
}

}  // namespace loft
