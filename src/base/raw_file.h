// Files by the system's own calls. libc's functions are points at which a thread may be cancelled,
// and another library may stand in front of them, which is not ready yet when loft is. All return
// what the call does: -1 with errno for a failure.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<sys/syscall.h>)
#include <sys/syscall.h>
#endif

#include <cstddef>

namespace loft::raw {

inline int open_file(const char* path, int flags, unsigned mode = 0) {
#if defined(SYS_openat)
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
#else
  return open(path, flags, mode);
#endif
}

inline long read_file(int file, void* to, size_t bytes) {
#if defined(SYS_read)
  return syscall(SYS_read, file, to, bytes);
#else
  return read(file, to, bytes);
#endif
}

inline long write_file(int file, const void* from, size_t bytes) {
#if defined(SYS_write)
  return syscall(SYS_write, file, from, bytes);
#else
  return write(file, from, bytes);
#endif
}

inline void close_file(int file) {
#if defined(SYS_close)
  syscall(SYS_close, file);
#else
  close(file);
#endif
}

// What kind of file it is, and whose. The call is the one that glibc's loader makes.
inline int look_at_file(int file, struct stat* found) {
#if defined(SYS_newfstatat) && defined(AT_EMPTY_PATH) && __SIZEOF_LONG__ == 8
  return static_cast<int>(syscall(SYS_newfstatat, file, "", found, AT_EMPTY_PATH));
#else
  return fstat(file, found);
#endif
}

}  // namespace loft::raw
