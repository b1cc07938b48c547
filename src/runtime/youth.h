// A young thread has no block and no heap. It takes each object from the heap that such threads
// share, under that heap's lock, and puts it back there. So it keeps nothing: what a thread that
// does little takes is its objects alone.
//
// It grows up, and gets a block and a heap, after kCalls of its slow paths. These take then about
// as long as the page faults of a block, a heap and a few slabs: whatever the thread does, it pays
// at most twice what the better choice would have cost. To find the lock held counts as half of
// that.
//
// The shared heap hands out only objects that fill whole cache lines, so that no line has objects
// of two threads. What a young thread frees of another heap it puts back there, under that heap's
// lock, or sends if the lock is held.
//
// Nor is a thread young for which a block is at hand that an ended one has left, with its arrays:
// that costs no more memory. The first thread, which mostly does most, is never young either. Nor
// is any with owner=cpu, whose threads keep nothing anyway, with owner=shared, whose threads share
// all slabs, or with a hardened mode, which keeps what it needs in blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/macros.h"
#include "cache/bins.h"
#include "cache/percpu.h"
#include "cache/thread_cache.h"
#include "os/lock.h"
#include "space/pagemap.h"

namespace loft::youth {

inline constexpr uint32_t kCalls = 256;
inline constexpr uint32_t kMostCalls =
    2 * kCalls;  // of those that put back what is the shared heap's

// Of the calling thread, in bytes: allocated less freed (stats/net.h), modulo 2^64. One object off
// where a signal handler has allocated between two steps.
extern LOFT_HIDDEN LOFT_TLS __thread size_t net_bytes;

// Whether a block is at hand. Written under the lock of runtime/lifecycle.cc. Relaxed: a hint.
extern LOFT_HIDDEN Atomic<bool> block_at_hand;

// Whether the calling thread takes what it needs from the shared heap.
bool lasts();  // of a thread without a block
LOFT_ALWAYS_INLINE bool is_young() {
  return LOFT_LIKELY(!percpu::in_use()) && LOFT_UNLIKELY(this_thread() == &empty_cache) && lasts();
}

// An object for a young thread. nullptr without memory. With `zero`, one that reads as zero, or
// nullptr.
void* take(ObjectRequest request, bool zero);

// Takes an object in a slab back, if the thread has no block and needs none for this free. Who has
// grown up gets its block with an allocation, and puts back until then what it had as it had it: in
// batches that would lie open for as long as it sleeps. A thread that only frees gets its block
// after as many calls again.
bool put_slow(void* p, Entry entry);
LOFT_ALWAYS_INLINE bool put(void* p, Entry entry) {
  return LOFT_LIKELY(!percpu::in_use()) && LOFT_UNLIKELY(this_thread() == &empty_cache) &&
         put_slow(p, entry);
}

// The thread gets a block. Returns its net_bytes, for the block.
size_t end();

// The lock is about to be taken. A hint: who takes it meanwhile is not seen.
void count_call(const os::Lock& lock);

}  // namespace loft::youth
