// What loft's own threads ask of the system, beside POSIX's threads.
#pragma once

namespace loft::os {

// Whether libc's thread number of the caller is its real one. A child that shares its parent's
// memory (vfork) has the parent's thread-local storage, and with it libc's number of the parent's
// thread.
bool is_thread_of_libc();

// Whether the caller is the process's first thread.
bool is_first_thread();

}  // namespace loft::os
