// Unused memory: what is free and may be resident, in free spans and in the slabs and medium runs
// of heaps. A program that frees more of it than a bound gives the rest back to the system within
// that free (runtime/round.cc), whatever happens later. The bound is 64 MiB (option dirty_bytes)
// or an eighth of what is in use, whichever is more; little where a limit is near.
//
// Purging what is wanted again soon costs a fault for each page. So the bound grows by what was
// taken again within decay_ms after it was given back, at most to twice itself at a time. What
// it has grown by falls by halves while that much lies idle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"

namespace loft::unused {

// So many bytes more are unused, in heaps or under way to them; modulo 2^64. Asks for a look if
// that is too much.
void tell(size_t bytes);

// Heaps tell in steps, because all threads write to the line of the total. An object of a run may
// have 1 MiB, and must not cost that line each time.
inline constexpr ptrdiff_t kSlabStep = 256 << 10;
inline constexpr ptrdiff_t kRunStep = 1 << 20;

// What a heap has told of its slabs, or of its runs: what it has now within a step. Guarded by
// the heap's lock. Modulo 2^64: objects may come back to another heap than had them.
template <ptrdiff_t kStep>
class Teller {
 public:
  // After bytes came back. Asks for a look if that is too much.
  LOFT_ALWAYS_INLINE void see_more(size_t now) {
    if (LOFT_UNLIKELY(static_cast<ptrdiff_t>(now - told_) >= kStep)) tell_all(now);
  }
  // Before new memory is taken.
  void see_less(size_t now) {
    if (static_cast<ptrdiff_t>(told_ - now) >= kStep) tell_all(now);
  }
  // After a purge, so that what is told of stays true in many heaps at rest.
  void see_all(size_t now) {
    if (now != told_) tell_all(now);
  }
  // So many bytes have arrived, of which their sender has told.
  void was_told(size_t bytes) { told_ += bytes; }

 private:
  void tell_all(size_t now) {
    tell(now - told_);
    told_ = now;
  }

  size_t told_ = 0;
};

// Free spans have become more.
void see();
// Memory without pages was taken.
void see_growth();

// All of it; of that what lies in heaps, or is under way to them. A free span serves whoever is
// next, but a page of a slab only objects of the slab's size. So heaps that grow purge before they
// have a quarter of the whole bound, or an eighth of what is in use.
enum Scope : uint8_t { kAll, kInHeaps };
inline constexpr unsigned kScopes = 2;

size_t total(Scope scope = kAll);
size_t bound(Scope scope = kAll);
// Whether a total exceeds its bound, and what the last purge had to leave by a step.
bool is_too_much();

// ---- For whoever purges, one thread at a time.

// What a purge is to give back: so much more than the bound asks for that not every later free
// purges.
size_t excess(Scope scope);
// Before a purge: the bound grows by what came back of what went.
void adapt(uint64_t now_ns);
// So much of all, and of what lies in heaps, cannot go.
void note_left(size_t all, size_t of_heaps);
// Each tick: the bound falls while what is unused lies idle.
void tick();

// ---- By any thread.

// So many bytes went back to the system.
void note_purged(size_t bytes, uint64_t now_ns);

// Memory that had been purged is taken into use.
extern LOFT_HIDDEN Atomic<size_t> gone;  // purged for the bound, and perhaps wanted again
void count_wanted(size_t bytes);
inline void note_wanted(size_t bytes) {
  if (LOFT_UNLIKELY(gone.load(memory_order_relaxed) != 0)) count_wanted(bytes);
}

}  // namespace loft::unused
