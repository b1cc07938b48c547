// What loft's own threads ask of the system, beside POSIX's threads.
#pragma once

#include <pthread.h>

namespace loft::os {

// Whether libc's thread number of the caller is its real one. A child that shares its parent's
// memory (vfork) has the parent's thread-local storage, and with it libc's number of the parent's
// thread.
bool is_thread_of_libc();

// The function that makes a thread: libc's own, past whatever the program or another library has in
// its place, because that may allocate, or hold locks of its own. The public one (a) in a program
// that has loft in itself; (b) under a sanitizer, which must know of each thread.
using CreateThread = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
CreateThread creator_of_threads();

// For a thread of loft's own, when it begins. It may run where the process's first thread may.
void settle_in(const char* name);

}  // namespace loft::os
