// The free spans of the window: lists by length, resident and clean ones apart, and the pagemap
// entries by which neighbours find each other to join. For space/span.cc alone, under its lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "space/span_bins.h"
#include "space/window.h"

namespace loft::free_spans {

// Invariant: no two listed spans of one kind touch, but for refused ones and, in the child of a
// fork, what was in transit; bytes[kind] is the sum over those of the kind.
enum : bool { kClean = false, kDirty = true };
extern LOFT_HIDDEN Counter bytes[2];
extern LOFT_HIDDEN Counter refused_bytes;  // of listed spans that are marked as refused

inline size_t bytes_of(const Span* s) { return s->granules << kGranuleLog; }

// The listed span whose first or last granule is at the address; nullptr if none.
Span* at(uintptr_t address);

// A listed span of at least so many granules; nullptr if there is none. The first looks at a
// bounded number of spans, and may miss one; the other at all that may do.
Span* find(bool dirty, size_t granules);
Span* find_any(bool dirty, size_t granules);
// One of the longest of its kind; nullptr if there is none. Of resident ones, that the system did
// not refuse to take.
Span* longest(bool dirty);

// Takes a listed span out of its list, for good.
void remove(Span* s);

// Lists [base, base + granules) as free, joined with free neighbours of its kind. Without memory
// for a descriptor the granules are lost to the window; a dirty range gives its pages back first.
void insert(uintptr_t base, size_t granules, bool dirty);

// Cuts `granules` off the front of a listed span, whose rest stays listed.
void take_front(Span* s, size_t granules);

// Takes, with its descriptor, the part of a listed span that a purge of up to `most` granules gives
// back: its end, because the beginnings of spans are used first; in whole units. The rest stays
// listed. nullptr if it has no whole unit. It comes back by link, as it was, or its descriptor is
// given up.
Span* take_part_to_purge(Span* s, size_t most_granules, size_t unit);
void link(Span* s);
// As link, for a span that the system did not take back: joined with such neighbours, and with no
// others, which may go another time.
void link_refused(Span* s);
void discard_descriptor(Span* s);

}  // namespace loft::free_spans
