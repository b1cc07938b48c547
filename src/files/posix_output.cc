// Files that loft writes, by POSIX's calls.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "base/keep_errno.h"
#include "base/raw_file.h"
#include "files/output.h"

namespace loft::files {

namespace {

constexpr const char* kNotRegular = "it is no regular file";

sigset_t* as_set(unsigned char* bytes) { return reinterpret_cast<sigset_t*>(bytes); }

// Takes one that is pending. Another thread may take it first, if it was sent to the process.
void take_pending(const sigset_t& one) {
  const timespec none = {};
  sigtimedwait(&one, nullptr, &none);
}

const char* why_not_open(int error) {
  return error == ENOENT   ? "its folder does not exist"
         : error == EACCES ? "permission denied"
         : error == ELOOP  ? "it is a symbolic link"
         : error == EISDIR ? "it is a folder"
         : error == ENXIO  ? kNotRegular
                           : "it cannot be opened";
}

const char* why_not_appended(int file) {
  struct stat found;
  if (raw::look_at_file(file, &found) != 0) return "the system does not say whose it is";
  if (!S_ISREG(found.st_mode)) return kNotRegular;
  if (found.st_nlink != 1) return "it has another name, too";
  // Root's, which its own user may write to, was made for that.
  return found.st_uid == geteuid() || found.st_uid == 0 ? nullptr : "it is another user's";
}

}  // namespace

int Output::open(const char* path) {
  const KeepErrno keep;
  struct stat present;
  if (raw::look_at_path(path, &present) == 0 && !S_ISREG(present.st_mode)) {
    return S_ISLNK(present.st_mode) ? ELOOP : S_ISDIR(present.st_mode) ? EISDIR : EEXIST;
  }
  path_ = path;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  do {
    if (!name_temporary(path, temporary_, sizeof(temporary_))) return ENAMETOOLONG;
    file_ = raw::open_file(temporary_, kFlags, 0600);
  } while (file_ < 0 && (errno == EINTR || errno == EEXIST));
  return file_ < 0 ? errno : 0;
}

int Output::close(int error) {
  const KeepErrno keep;
  raw::close_file(file_);
  if (error == 0 && raw::rename_file(temporary_, path_) != 0) error = errno;
  if (error != 0) raw::remove_file(temporary_);
  return error;
}

int open_to_append(const char* path, const char** why) {
  const KeepErrno keep;
  constexpr int kFlags =
      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int file = -1;
  do {
    file = raw::open_file(path, kFlags, 0600);
  } while (file < 0 && errno == EINTR);
  *why = file < 0 ? why_not_open(errno) : why_not_appended(file);
  if (file < 0 || *why == nullptr) return file;
  raw::close_file(file);
  return -1;
}

bool write_at_once(int file, const char* text, size_t bytes) {
  const KeepErrno keep;
  return raw::write_file(file, text, bytes) == static_cast<long>(bytes);
}

void close_output(int file) {
  const KeepErrno keep;
  raw::close_file(file);
}

WithoutSignals::WithoutSignals() {
  static_assert(sizeof(sigset_t) <= kSetBytes && alignof(sigset_t) <= alignof(uint64_t));
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGPIPE);
  sigaddset(&both, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &both, as_set(before_));
  // A signal that the program keeps off may be pending already, and stays the program's.
  sigemptyset(as_set(ours_));
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(as_set(before_), signal) == 0) sigaddset(as_set(ours_), signal);
  }
}

WithoutSignals::~WithoutSignals() {
  const KeepErrno keep;
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(as_set(ours_), signal) == 0 || sigismember(&pending, signal) == 0) continue;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    take_pending(one);
  }
  pthread_sigmask(SIG_SETMASK, as_set(before_), nullptr);
}

uint64_t wall_clock_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool path_of_program(char* to, size_t bytes) {
  const KeepErrno keep;
  const ssize_t length = readlink("/proc/self/exe", to, bytes);
  if (length <= 0 || static_cast<size_t>(length) >= bytes) return false;
  to[length] = 0;
  return true;
}

unsigned process_number() { return static_cast<unsigned>(getpid()); }

}  // namespace loft::files
