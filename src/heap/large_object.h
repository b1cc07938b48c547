// What is known of a large object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/metadata.h"
#include "space/pagemap.h"

namespace loft {

struct Large {
  uintptr_t base;
  size_t bytes;  // usable, a multiple of the page size, <= granules << kGranuleLog
  size_t granules;
  size_t front;     // granules of a guarded object that lie in front of it
  size_t asked;     // bytes; the part that the program requested
  uint16_t shift;   // bytes of a guarded object's pages that lie in front of it
  uint16_t record;  // of a guarded sample (hardened/guarded_samples.h)
  bool moved;       // its pages came by os::move_pages: a mapping of their own
  bool kept;        // free: the descriptor is among a thread's unused ones
  bool guarded;     // by hardened/guarded.h
  uint8_t maker;    // for a guarded object: what its caller notes there
  bool sampled;  // there is a sample of it (profile/samples.h); set and cleared by the floors above

  uintptr_t start() const { return base + shift; }  // the program's address of it
};

namespace large {

inline Large* at(Entry entry) { return metadata::at_index<Large>(entry.index()); }

}  // namespace large
}  // namespace loft
