// The mark of hardened=guard: the first word of a small object from its free to its next hand-out.
// An object that has it when it is freed is freed twice, and one that is resized is none.
//
// What is handed out loses it: in sampling/sampling.cc; and in sampling/meter.cc, a few objects at
// a time, which have another word then. A message that travels in the object writes over it; the
// second free is then found by the bitmap of the slab or of the batch. A program that has written
// the mark there itself, read from a freed object at the same address, would be stopped wrongly.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace loft::sampling {

// Drawn when the library is loaded, and never changed.
extern LOFT_HIDDEN uint64_t mark_secret;
extern LOFT_HIDDEN bool is_marking;  // whether freed objects have one

inline uint64_t mark_of(const void* p) { return reinterpret_cast<uintptr_t>(p) ^ mark_secret; }

inline bool is_marked(const void* p) { return *static_cast<const uint64_t*>(p) == mark_of(p); }
inline void mark(void* p) { *static_cast<uint64_t*>(p) = mark_of(p); }

// What lies in a second bin (sampling/meter.h) is handed out as it is, so that it cannot have the
// mark. It has this word, and so has an object that was not written to: a free of one that has it
// looks into the bin. It differs from the mark in each byte: a program that writes a few of them,
// as a short text, does not make one of the other.
inline uint64_t word_ahead(const void* p) { return ~mark_of(p); }
inline bool may_be_free(const void* p) {
  return (*static_cast<const uint64_t*>(p) ^ mark_of(p)) + 1 <= 1;
}

// For an object that is handed out, or nullptr. Returns it.
inline void* unmark(void* p) {
  if (LOFT_UNLIKELY(is_marking) && p != nullptr) *static_cast<uint64_t*>(p) = 0;
  return p;
}

}  // namespace loft::sampling
