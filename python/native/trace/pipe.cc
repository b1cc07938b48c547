#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace recorder::pipe {

namespace {

// High, where programs neither expect descriptors nor close them one by one.
constexpr int kHighDescriptor = 900;

char path[3008];
int pipe_fd = -1;
struct stat pipe_identity;

bool open_again() {
  // Without a reader this fails, and does not wait for one.
  const int low = ::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (low < 0) return false;
  rlimit most;
  int number = kHighDescriptor;
  if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur <= kHighDescriptor) {
    number = static_cast<int>(most.rlim_cur) - 1;
  }
  const int high = fcntl(low, F_DUPFD_CLOEXEC, number);
  if (high >= 0) close(low);
  pipe_fd = high >= 0 ? high : low;
  fcntl(pipe_fd, F_SETFL, 0);
  return fstat(pipe_fd, &pipe_identity) == 0 && S_ISFIFO(pipe_identity.st_mode);
}

// The program may have closed the descriptor, and opened something of its own under its number.
bool pipe_is_there() {
  struct stat now;
  return pipe_fd >= 0 && fstat(pipe_fd, &now) == 0 && now.st_ino == pipe_identity.st_ino &&
         now.st_dev == pipe_identity.st_dev;
}

void take_signal_of_pipe() {
  sigset_t broken;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  const timespec at_once = {0, 0};
  while (sigtimedwait(&broken, nullptr, &at_once) < 0 && errno == EINTR) {
  }
}

}  // namespace

bool open(const char* folder) {
  snprintf(path, sizeof(path), "%s/pipe", folder);
  return open_again();
}

Sent send(const void* bytes, size_t length) {
  if (!pipe_is_there() && !open_again()) {
    return {false, "the descriptor was closed, and the pipe cannot be opened again"};
  }
  for (;;) {
    if (::write(pipe_fd, bytes, length) == static_cast<ssize_t>(length)) return {true, nullptr};
    if (errno == EAGAIN) {
      pollfd ready = {pipe_fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  if (errno == EPIPE) {
    take_signal_of_pipe();
    return {false, nullptr};
  }
  return {false, "the pipe cannot be written"};
}

}  // namespace recorder::pipe
