// The parts of the slow paths of malloc and free that depend on who owns the heaps. A block has a
// mode from the moment when it gets its heap (cache/thread.h), and no slow path asks for the option
// `owner`.
#pragma once

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

extern LOFT_HIDDEN const Parts parts[];
inline const Parts& parts_of(const Thread* thread) {
  return parts[static_cast<unsigned>(thread->mode)];
}

}  // namespace loft
