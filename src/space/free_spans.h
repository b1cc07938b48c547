// The free spans of the window, the frontier above which no granule was handed out yet, and the
// search for the granules of a new span in both. Callers hold the lock of space/span.cc, except
// where a comment says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "base/run_bins.h"
#include "space/window.h"

namespace loft {

enum SpanState : uint8_t {
  kClean,     // mapped; reads as zero
  kDirty,     // resident, as far as loft knows
  kUnmapped,  // addresses given back, too: another mapping may be there
};
inline constexpr unsigned kSpanStates = 3;

// A run of free granules. The descriptor lives in the metadata region. The pagemap entries of the
// first and last granule name it, so that a neighbour that becomes free finds it.
struct Span {
  uintptr_t base;
  size_t granules;
  SpanState state;
  Span* next;
  Span* prev;
  bool refused;  // the system refused to take its pages back

  size_t length() const { return granules; }
};

using SpanBins = RunBins<Span>;

}  // namespace loft

// The free spans of the window: for each state, lists by length. Neighbours find each other through
// pagemap entries and join.

namespace loft::free_spans {

// Invariant: no two listed spans of one state touch, except refused ones. bytes[state] is the sum
// over the listed spans of that state.
extern LOFT_HIDDEN Counter bytes[kSpanStates];
extern LOFT_HIDDEN Counter refused_bytes;  // of listed spans marked as refused
extern LOFT_HIDDEN Counter unmapped_spans;

inline size_t dirty_bytes() { return bytes[kDirty].get(); }

inline size_t bytes_of(const Span* s) { return s->granules << kGranuleLog; }

// The listed span whose first or last granule is at `address`; nullptr if none.
Span* at(uintptr_t address);

// A listed span of at least `granules`; nullptr if there is none. find() examines a bounded number
// of spans and may miss one. find_any() examines all that may fit.
Span* find(SpanState state, size_t granules);
Span* find_any(SpanState state, size_t granules);
// One of the longest spans of a state; nullptr if there is none. Skips spans that the system
// refused to take.
Span* longest(SpanState state);

// Removes a listed span and its descriptor.
void remove(Span* s);

// Lists [base, base + granules) as free, joined with free neighbours of that state. Without memory
// for a descriptor, the granules are lost to the window; a dirty range is discarded first.
void insert(uintptr_t base, size_t granules, SpanState state);

// Cuts `granules` off the front of a listed span; the rest stays listed.
void take_front(Span* s, size_t granules);

// The same, but first maps the granules of an unmapped span. False (a) without memory, with the
// span unchanged; (b) if another mapping has come to lie in the granules, which are then lost.
bool claim(Span* s, size_t granules);
// Undoes a claim of granules that were in `state`.
void put_back(uintptr_t base, size_t granules, SpanState state);

// Purges spans that are in no list, kMostDiscards at most. Writes their new states: kDirty if the
// system refuses. Any thread, without the lock, as long as nobody else has these spans.
void purge_pages(Span* const* spans, unsigned count, SpanState* states);

// Purges resident spans, the longest first, until at most `keep` bytes of them stay. Returns the
// bytes purged. The lock is held all the time, as span::purge avoids: for a caller without memory.
size_t purge(size_t keep);

// Ranges of this many bytes or more are purged by unmapping, so that they no longer count against
// limits on address space.
inline constexpr size_t kUnmapMin = size_t{1} << 20;

// Unmaps the clean spans of `shortest` bytes or more. A purge discards short spans; these become
// long as their neighbours join.
void unmap_clean(size_t shortest);

// Takes the part of a listed span that a purge of up to `most_granules` gives back, with a
// descriptor. It is the end of the span, because beginnings are used first, and consists of whole
// units. The rest stays listed. nullptr if the span has no whole unit. The caller lists the part
// again, unchanged, by link, or discards its descriptor.
Span* take_part_to_purge(Span* s, size_t most_granules, size_t unit);
void link(Span* s);
// As link, for a span that the system refused to take. It joins refused neighbours only; others may
// be taken another time.
void link_refused(Span* s);
void discard_descriptor(Span* s);

}  // namespace loft::free_spans

// The frontier of the window: granules at and above it were never handed out.

namespace loft::frontier {

// Called once, after the window is open.
void begin();

// Any thread, without the lock.
uintptr_t end();

// Advances the frontier by `bytes` and returns where the new bytes begin; 0 without memory. If
// another mapping is in the way, the frontier continues behind it. With `next_to_last`, the new
// bytes must follow the old frontier: after such a jump the result is 0.
uintptr_t advance(size_t bytes, bool next_to_last);

}  // namespace loft::frontier

// The search for the granules of a new span.

namespace loft::search {

using span::Range;

// Takes the first granules of a listed span. An empty range if `s` is nullptr.
Range take_from(Span* s, size_t granules);

// Takes granules from two adjacent spans of different states, which never join. Otherwise a long
// object that is allocated again and again would take new addresses, and as much memory, each time
// a part of its span was purged. Looks at the longest span of each state.
Range take_in_two_parts(size_t granules);

// Takes the free span that ends at the frontier, or the last two, and adds as many new granules as
// are missing. For an object (a) that is a little longer each time, or (b) whose span has lost its
// first granule to a slab.
Range take_last_and_more(size_t granules);

}  // namespace loft::search
