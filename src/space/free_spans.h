// The free spans of the window: lists by length, those of each state apart, and the pagemap entries
// by which neighbours find each other to join. For space/span.cc alone, under its lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "space/span_bins.h"
#include "space/window.h"

namespace loft::free_spans {

// Invariant: no two listed spans of one state touch, except refused ones; bytes[state] is the sum
// over those of the state.
extern LOFT_HIDDEN Counter bytes[kSpanStates];
extern LOFT_HIDDEN Counter refused_bytes;  // of listed spans that are marked as refused
extern LOFT_HIDDEN Counter unmapped_spans;

inline size_t dirty_bytes() { return bytes[kDirty].get(); }

inline size_t bytes_of(const Span* s) { return s->granules << kGranuleLog; }

// The listed span whose first or last granule is at the address; nullptr if none.
Span* at(uintptr_t address);

// A listed span of at least so many granules; nullptr if there is none. The first looks at a
// bounded number of spans, and may miss one; the other at all that may do.
Span* find(SpanState state, size_t granules);
Span* find_any(SpanState state, size_t granules);
// One of the longest in its state; nullptr if there is none. Of resident ones, that the system did
// not refuse to take.
Span* longest(SpanState state);

// Takes a listed span out of its list, for good.
void remove(Span* s);

// Lists [base, base + granules) as free, joined with free neighbours in that state. Without memory
// for a descriptor the granules are lost to the window; a dirty range gives its pages back first.
void insert(uintptr_t base, size_t granules, SpanState state);

// Cuts `granules` off the front of a listed span, whose rest stays listed.
void take_front(Span* s, size_t granules);

// The same with granules that are mapped: those of an unmapped span are mapped first. False, and
// the span as it was, without memory. False, too, and the granules are lost, if another mapping has
// come to lie in them.
bool claim(Span* s, size_t granules);
// Undoes a claim of granules that had the state.
void put_back(uintptr_t base, size_t granules, SpanState state);

// Gives the memory of a range that is in no list to the system, and says what it is then: kDirty
// where the system refuses.
SpanState purge_pages(uintptr_t base, size_t length);

// Gives resident spans back, the longest first, until at most `keep` bytes of them stay. Returns
// the bytes given back.
size_t purge(size_t keep);

// Unmaps the long clean spans: what is short is discarded, and is long once its neighbours have
// come, too.
void unmap_clean();

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
