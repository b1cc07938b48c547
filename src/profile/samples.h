// Sampled objects. Each has pages to itself, in a heap that no thread owns
// (registry::samples_heap). So its free leaves free's fast path as that of any other thread's
// medium object, and its pagemap entry says that it has a sample, which lies in a table elsewhere.
// An object above 4 MiB, or aligned to more than a page, is a large one with a mark
// (heap/large.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "os/lock.h"
#include "profile/site.h"

namespace loft::profile {

// Makes what samples need. False without memory. Any thread, any time.
bool prepare();
bool prepared();

// Allocates an object on which a sample has fallen, and draws the next one. `charged`: its length
// in memory were it not sampled, which the chance followed. nullptr without memory: the caller goes
// on as if nothing had fallen on it. `kept`: the object in a slab, for the sample to
// keep; it stays the caller's if the result is nullptr.
void* allocate(size_t asked, size_t alignment, size_t charged, bool zeroed, void* kept = nullptr);

// The same for an object that is there already. Its owner marks it, and tells of its end. False
// without memory.
bool note(const void* p, size_t asked, size_t charged, void* kept = nullptr);

// For a sampled object that is about to move or to get another length: takes its sample out of the
// table, and puts it back. In between its old place may be allocated again.
struct Sample;
Sample* lift(const void* p);  // nullptr if there is none; put_down then does nothing
void put_down(Sample* sample, const void* p, size_t asked, size_t charged);
size_t charged_of(const Sample* sample);  // 0 for nullptr
// Tells tracers that it is gone, while nobody else can have its place. put_down tells of the new.
void tell_of_end(const Sample* sample);
void put_back(Sample* sample, const void* p, bool told);  // unchanged; told: by tell_of_end

// Before a sampled object is freed. Nothing happens if there is no sample of it. Returns what
// was kept for it, which the caller frees after it; nullptr: none.
void* forget(const void* p);

// Gives a sampled object's pages back. It is marked as kept (medium_cache::mark).
void release(void* p);

// Counts the sampled objects in use of which `is_lost` says so, in place of what was counted
// before.
void count_lost(bool (*is_lost)(void* context, const void* p), void* context);

// Counts the bytes that are wasted where objects are kept for samples, in place of what was counted
// before. visit_kept calls `visit` for each of these. The lock of the samples is held
// (prepare_fork).
void count_waste(uint64_t (*wasted)(void* context, const void* kept), void* context);
void visit_kept(void (*visit)(void* context, void* kept), void* context);

bool lost_are_counted();  // whether count_lost or count_waste was ever called

uint64_t in_use();  // weighted bytes; takes no lock

struct SampleTotals {
  size_t live_samples;
  uint64_t in_use_bytes;  // weighted
  uint64_t peak_bytes;    // the highest of these that was kept, within a thirty-second part
  size_t lost;            // samples without memory for their record
};
SampleTotals totals();

// Held while the profile is switched on or off. A fork takes it before those of blocks and heaps:
// its holder takes others.
os::Lock& changes();

// The lock of the samples is held between these two calls.
void prepare_fork();
void finish_fork(bool child);

}  // namespace loft::profile
