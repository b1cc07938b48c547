// Files by the system's own calls. libc's functions are points at which a thread may be cancelled,
// and another library may stand in front of them, which is not ready yet when loft is. All return
// what the call does: -1 with errno for a failure.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace loft::raw {

inline int open_file(const char* path, int flags, unsigned mode = 0) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

// What has that name; of a symbolic link the link itself.
inline int look_at_path(const char* path, struct stat* found) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW));
}

inline int rename_file(const char* from, const char* to) {
#if defined(SYS_renameat)
  return static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
#else  // RISC-V
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
#endif
}

inline int remove_file(const char* path) {
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

inline long read_file(int file, void* to, size_t bytes) {
  return syscall(SYS_read, file, to, bytes);
}

inline long read_file_at(int file, void* to, size_t bytes, size_t at) {
  return syscall(SYS_pread64, file, to, bytes, at);
}

inline long write_file(int file, const void* from, size_t bytes) {
  return syscall(SYS_write, file, from, bytes);
}

inline void close_file(int file) { syscall(SYS_close, file); }

// What kind of file it is, and whose. The call is the one that glibc's loader makes.
inline int look_at_file(int file, struct stat* found) {
  return static_cast<int>(syscall(SYS_newfstatat, file, "", found, AT_EMPTY_PATH));
}

}  // namespace loft::raw
