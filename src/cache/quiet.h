// Threads that have gone quiet: what they hold goes home without them.
//
// A thread that sleeps cannot be asked, and its cache has no lock. But all its calls begin by
// loading `self`; so it is hidden, by writing a stand-in there, and once it is certain that it has
// not run since, its cache is another's to empty. When it wakes, its first call fails on the
// stand-in like a thread's very first one, and takes its block back. Nothing of this costs the fast
// paths an instruction.
#pragma once

#include "cache/thread.h"

namespace loft::quiet {

// One look at all threads. Those in whose cache nothing moved for some looks, and that wait in the
// kernel, are hidden and emptied; hidden ones to whose heaps something came are emptied again. True
// if all threads are hidden and nothing was left to do for them.
bool look();

// The heap of the room (owner=keeper) rests as a thread's does with its thread: once it has served
// nobody for some looks. True if nothing was left to do.
bool rest_room();

// The same for all threads but the caller's, at once and quiet or not.
struct Swept {
  unsigned long unreached_threads;  // that could not be hidden
  size_t unreached_bytes;           // in the bins of those, more or less
  size_t given_back;                // bytes of holes in the slabs of the others
};
Swept empty_all();

// The calling thread is about to wait: hides it and empties it.
void begin_wait();

// The calling thread, whose block this is, found a stand-in in its `self`: takes its block back.
void wake(Thread* thread);

// Nobody acts for another thread between the two.
void prepare_fork();
void finish_fork(bool child);

// The thread ends, or is found dead after a fork: nobody can hide it from now on, and its bins are
// as its own code expects them.
void retire(Thread* thread);

}  // namespace loft::quiet
