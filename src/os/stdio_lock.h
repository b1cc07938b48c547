// The lock on the C library's list of open streams. glibc's fork takes it after the handlers of
// pthread_atfork, and so after loft's locks. That order can deadlock: a flush of all streams holds
// the list's lock while it waits for one stream, and the holder of that stream may wait for memory.
// The forking thread therefore takes the list's lock before loft's locks. glibc keeps the same
// order with its own malloc.
#pragma once

namespace loft::os {

// Called around a fork by the forking thread: lock_streams before the first of loft's locks is
// taken, unlock_streams after the last one is released.
void lock_streams();
void unlock_streams(bool child);

}  // namespace loft::os
