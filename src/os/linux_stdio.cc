// glibc's lock on its list of streams, which it exports. (musl keeps its own to itself, and has the
// same order of locks: there, a fork beside fflush(NULL) and a getline that grows its line may
// hang.)
//
// glibc's lock on the configuration of name services is taken in the same place, before that of the
// list, since glibc 2.33, and no function takes it from outside. Its holder allocates and opens a
// stream when it reads /etc/nsswitch.conf: once in a process, and again after the file has changed.
// A thread that forks just while another one does this for the first time hangs, as it does under
// other replacements of malloc that hold their locks across a fork. A program that cannot rule it
// out asks for a user or a host once before it starts threads.
#include <stdio.h>  // for __GLIBC__
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "base/atomic.h"
#include "os/stdio_lock.h"

extern "C" {
#if defined(__GLIBC__)
// Recursive. In all versions of glibc since 2.2.5, and in none of its headers.
[[gnu::weak]] void _IO_list_lock() noexcept;
[[gnu::weak]] void _IO_list_unlock() noexcept;
[[gnu::weak]] void _IO_list_resetlock() noexcept;
#endif
}

namespace loft::os {

#if defined(__GLIBC__)

namespace {

// By a fork. Relaxed: it changes under that lock alone, which orders it.
constinit Atomic<bool> streams_locked{false};

// Nobody can be waited for, then, and a fork may have interrupted whatever holds the lock, in a
// signal handler. glibc takes no lock in this case either. False where it does not tell.
bool one_thread() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace

void lock_streams() {
  if (one_thread() || _IO_list_lock == nullptr) return;
  _IO_list_lock();
  streams_locked.store(true, memory_order_relaxed);
}

// In the child of a process that had more threads, glibc has reset the lock by now: to unlock it
// once more would leave a count behind that no later unlock brings to zero. A reset is right
// whether it has done so or not.
void unlock_streams(bool child) {
  if (!streams_locked.load(memory_order_relaxed)) return;
  streams_locked.store(false, memory_order_relaxed);
  if (child) {
    _IO_list_resetlock();
  } else {
    _IO_list_unlock();
  }
}

#else

void lock_streams() {}
void unlock_streams(bool) {}

#endif

}  // namespace loft::os
