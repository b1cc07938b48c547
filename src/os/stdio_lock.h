// The lock on the C library's list of open streams. glibc's fork takes it after the handlers of
// pthread_atfork have run, and so after loft's locks; yet flushing all streams holds it while it
// waits for one stream, whose holder may be waiting for memory. Who forks takes it before loft's
// locks, therefore, which is the order that glibc keeps with its own malloc.
#pragma once

namespace loft::os {

// Around a fork, by the thread that forks: before the first and after the last of loft's locks.
void lock_streams();
void unlock_streams(bool child);

}  // namespace loft::os
