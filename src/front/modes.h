// The parts of the slow paths of malloc and free that depend on who owns the heaps. A block has a
// mode from the moment when it gets its heap (cache/thread.h), and no slow path asks for the option
// `owner`.
#pragma once

#include "base/atomic.h"
#include "cache/bins.h"
#include "cache/thread.h"

namespace loft {

struct Parts {
  // Returns an object of a class whose bin is empty, and refills the bin; nullptr without memory.
  // `thread` is the calling thread's block; the stand-in if it has none. For kProcessors, it is a
  // processor's block whose lock is held.
  void* (*refill)(Thread* thread, Request request);

  // Pushes an object onto a full bin. False if (a) the bin cannot be made the caller's own, or (b)
  // it has no array and gets none.
  bool (*push)(Thread* thread, SizeClass size_class, void* p);

  // Takes an object of another heap.
  void (*free_remote)(Thread* thread, void* p, Entry entry);
};

// In the order of Mode.
inline constexpr unsigned kModes = 3;
extern LOFT_HIDDEN const Parts ordinary_parts[kModes];
inline const Parts& ordinary_parts_of(const Thread* thread) {
  return ordinary_parts[static_cast<unsigned>(thread->mode)];
}

// Those in use: others since the first profile began (front/metered.cc).
extern LOFT_HIDDEN Atomic<const Parts*> parts_in_use;
inline const Parts& parts_of(const Thread* thread) {
  // Acquire fence, pairs with the release fence in meter::turn_all: a thread that has found its
  // tables turned finds the parts that were set before. Acquire load, with the store in
  // follow_profile_options: it finds them made. Neither costs anything on x86-64.
  thread_fence(memory_order_acquire);
  return parts_in_use.load(memory_order_acquire)[static_cast<unsigned>(thread->mode)];
}

}  // namespace loft
