// glibc exports the lock on its list of streams. (musl does not export its lock and has the same
// lock order: a fork beside fflush(NULL) and a getline that grows its line may hang there.)
//
// Since glibc 2.33, fork takes the lock on the configuration of name services in the same place,
// just before the list's lock. No function takes that lock from outside. Its holder allocates and
// opens a stream when it reads /etc/nsswitch.conf: once per process, and again after the file has
// changed. A fork hangs if another thread is doing this for the first time. The same happens under
// other malloc replacements that hold their locks across a fork. A program that cannot rule this
// out should look up a user or a host once before it starts threads.
#include "os/lock.h"

#include <stdio.h>  // for __GLIBC__

#include "base/atomic.h"
#include "os/auxiliary.h"

extern "C" {
#if defined(__GLIBC__)
// A recursive lock. Every glibc since 2.2.5 exports these functions; no header declares them.
[[gnu::weak]] void _IO_list_lock() noexcept;
[[gnu::weak]] void _IO_list_unlock() noexcept;
[[gnu::weak]] void _IO_list_resetlock() noexcept;
#endif
}

namespace loft::os {

#if defined(__GLIBC__)

namespace {

// Set while a fork holds the lock. Relaxed: it changes only under that lock, which orders it.
constinit Atomic<bool> streams_locked{false};

}  // namespace

void lock_streams() {
  // Of one thread, there is no other to wait for, and a fork in a signal handler may have
  // interrupted the holder of the lock. glibc takes no lock in this case either.
  if (known_single_thread() || _IO_list_lock == nullptr) return;
  _IO_list_lock();
  streams_locked.store(true, memory_order_relaxed);
}

// In the child of a process with several threads, glibc has already reset the lock. A further
// unlock would leave a count that no later unlock brings to zero. A reset is correct in either
// case.
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
