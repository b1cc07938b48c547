// What threads leave unused, given back without them. A thread's caches are its own: they cannot be
// emptied while it sleeps, but its heap can, under the heap's lock.
#pragma once

#include <cstddef>

namespace loft::idle {

// One look at all threads. The heaps of those that called nothing for some looks give back the
// pages that no object lives on. True if every thread was idle and nothing was left to do for it.
bool look();

// The heap of the room (owner=keeper) rests as a thread's does with its thread: once it has served
// nobody for some looks. True if nothing was left to do.
bool rest_room();

// What is in the caches of all threads but the caller's: nobody else can reach it.
struct Unreached {
  unsigned long threads;
  size_t bytes;  // about
};
Unreached unreached();

// The calling thread is about to wait: empties its caches.
void begin_wait();

}  // namespace loft::idle
