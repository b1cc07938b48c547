// Purges what idle threads leave unused. Nobody else can empty the caches of a thread while it
// sleeps. Its heap can be purged, under the heap's lock.
#pragma once

#include <cstddef>

namespace loft::idle {

// One look at all threads. Purges the holes in the heaps of threads that met their heaps not
// once in some looks. True if every thread was idle and nothing was left to do for it.
bool look();

// Purges the heap that all threads share, if they do, once it has served no refill for some looks.
// True if nothing was left to do.
bool purge_common();

// What all threads except the caller hold in their caches. Only the thread itself can reach it.
struct Unreached {
  size_t threads;
  size_t bytes;  // about
};
Unreached unreached();

// The calling thread is about to wait. Empties its caches and rests its heap.
void begin_wait();

}  // namespace loft::idle
