// The table of what malloc and free do beyond their fast paths. A guest is what not every program
// runs, such as the hardened modes or the samples of a profile. To change malloc or free, it copies
// the rows of the core, replaces some functions, and has its rows used instead. So no slow path
// asks which guests there are. What else the core calls of guests is in cache/guest.h.
//
// There is one row for each mode of a block (cache/thread_cache.h), which the block gets with its
// heap.
#pragma once

#include <cstddef>

#include "base/atomic.h"
#include "base/macros.h"
#include "cache/bins.h"
#include "cache/thread_cache.h"
#include "space/pagemap.h"

namespace loft {

struct Large;
using ResizeLarge = void* (*)(Large* object, size_t size);

// What is known of a free, in two registers: the call, and the size that the caller names.
struct Freed {
  size_t size;
  bool has_size;
  bool by_delete;
  Maker maker;            // that fits the call: kMalloc for free
  uint8_t alignment_log;  // that the caller names; 0: none
};

struct alignas(64) Policy {
  // --- By the owner of the heaps: one for each mode. ---

  // Returns an object of a class whose bin is empty, and refills the bin; nullptr without memory.
  // `thread` is the calling thread's block; the stand-in if it has none. For kProcessors, it is a
  // processor's block whose lock is held.
  void* (*refill)(ThreadCache* thread, ObjectRequest request);
  // Pushes an object where the fast path could not. False, and nothing has changed, if (a) the
  // block has no heap, or (b) the bin cannot be made the caller's own.
  bool (*push)(ThreadCache* thread, SizeClass size_class, void* p);
  // Takes an object of another heap.
  void (*free_remote)(ThreadCache* thread, void* p, Entry entry);

  // --- The same for all modes. ---

  // calloc of an object in a slab, of which no bin has any: one that reads as zero. nullptr: the
  // caller takes the ordinary way, which may find an object.
  void* (*take_zero)(ObjectRequest request);
  // An object above kSmallMax, or aligned to more. nullptr and ENOMEM without memory.
  void* (*allocate_long)(size_t size, size_t alignment, bool zeroed, Maker maker);
  // By the call of this name; keeps errno. It also gets the objects whose bit `sampled` is set
  // (heap/large.h), or whose heap's is (medium::is_sampled).
  void (*free)(void* p);
  void (*free_as)(void* p, Freed freed);  // the core's: free, whatever the call says
  void* (*reallocate)(void* p, size_t size);
  size_t (*usable_size)(const char* call, const void* p);
  // Another length for an object that stays where it is. False, and nothing has changed, if it
  // cannot. size > 0. `call`, here as elsewhere, is the name that reports of misuse give.
  bool (*expand)(const char* call, void* p, size_t size);
  // The largest size of an object that takes no more memory than one of `size` bytes, which is at
  // least 1. `alignment` is a power of two.
  size_t (*good_size)(size_t alignment, size_t size);
  // Stops the program if `bytes` bytes from p on begin in an object and do not end in it.
  void (*check_bounds)(const char* call, const void* p, size_t bytes);
  // What usable_size returns of the object in the place of `bytes` bytes at p, without a report; 0
  // if the program has none there. Beside threads that allocate and free.
  size_t (*size_in)(const void* p, size_t bytes);
  // Whether one of the program's begins at p, as far as its place says.
  bool (*is_object)(const void* p);
  // Another length for a large object, by large::resize or large::expand. nullptr: the caller
  // copies.
  void* (*resize_large)(Large* object, size_t size, ResizeLarge how);
  // `bytes` bytes were refused for want of memory. No lock is held.
  void (*on_refused)(size_t bytes);
};

inline constexpr unsigned kModes = 3;  // in the order of Mode

struct Policies {
  Policy of[kModes];
};

// The core's own.
extern LOFT_HIDDEN const Policies core_policies;
inline const Policy& core_policy_of(const ThreadCache* thread) {
  return core_policies.of[static_cast<unsigned>(thread->mode)];
}
inline const Policy& core_policy() { return core_policies.of[0]; }

// Those in use. Read-only (base/sealed.h).
extern LOFT_HIDDEN Atomic<const Policies*> policies;
inline const Policy& policy_of(const ThreadCache* thread) {
  // Acquire fence, pairs with the release fence in sampling::turn_all: a thread that has found its
  // tables turned finds the policies that were set before. The acquire load pairs with the release
  // in use(): the thread finds the rows complete. Neither costs anything on x86-64.
  thread_fence(memory_order_acquire);
  return policies.load(memory_order_acquire)->of[static_cast<unsigned>(thread->mode)];
}
inline const Policy& policy() { return policies.load(memory_order_acquire)->of[0]; }

// Has them used from now on. At any time, if they do what those before them did, and more. False if
// the system refuses.
bool use(const Policies& chosen);

}  // namespace loft
