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

sigset_t* as_set(unsigned char* bytes) { return reinterpret_cast<sigset_t*>(bytes); }

// Takes one that is pending. Another thread may take it first, if it was sent to the process.
void take_pending(const sigset_t& one) {
  const timespec none = {};
  sigtimedwait(&one, nullptr, &none);
}

}  // namespace

int open_output(const char* path, int* error) {
  const KeepErrno keep;
  int file = -1;
  do {
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  } while (file < 0 && errno == EINTR);
  if (file < 0) *error = errno;
  return file;
}

int open_to_append(const char* path, int* error) {
  const KeepErrno keep;
  constexpr int kFlags =
      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int file = -1;
  do {
    file = raw::open_file(path, kFlags, 0600);
  } while (file < 0 && errno == EINTR);
  if (file < 0) *error = errno;
  return file;
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
