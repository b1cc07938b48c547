#include "inspect/place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string_view>

#include "base/atomic.h"
#include "base/keep.h"

namespace loft::inspect {

namespace {

// Calls that the system lets wait. More than these wait outside, by the system's rules.
constexpr int kBacklog = 32;

// The file that was made.
sockaddr_un address = {};
struct stat made;
pid_t maker = 0;

// Whoever takes `is_there` away removes the file. Sequentially consistent, both: the one thread
// stores `is_there` and then loads `has_ended`, the other one stores that and then looks for the
// first. One of the two must see what the other has stored.
constinit Atomic<uint32_t> is_there{0};
constinit Atomic<uint32_t> has_ended{0};

int new_socket() {
  return above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// 0, or an error.
int call(int (*function)(int, const sockaddr*, socklen_t), int file) {
  int result = 0;
  do {
    result = function(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// Locks the folder of the socket until the descriptor is closed. -1: it may not be read, or
// somebody holds it for longer than anybody needs.
int lock_folder() {
  char folder[sizeof(address.sun_path)] = ".";
  const size_t length = std::string_view(address.sun_path).rfind('/') + 1;
  if (length != 0) {
    memcpy(folder, address.sun_path, length);
    folder[length] = 0;
  }
  const int file = above_standard(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  constexpr int kTries = 100;
  constexpr int kPauseMs = 10;
  for (int i = 0; file >= 0 && i < kTries; ++i) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    poll(nullptr, 0, kPauseMs);
  }
  if (file >= 0) close(file);
  return -1;
}

// For which no call of the system has failed.
const char* plainly(const char* why) {
  errno = 0;
  return why;
}

// Removes what has the name of the socket if it is that of a process that is gone. nullptr; or why
// it stays.
const char* remove_dead(int folder) {
  struct stat found;
  if (lstat(address.sun_path, &found) != 0) return nullptr;
  if (!S_ISSOCK(found.st_mode)) {
    return plainly("a file that is no socket is there; remove it, or choose another path");
  }
  const int probe = new_socket();
  if (probe < 0) return "the system gives no socket";
  const int error = call(connect, probe);
  close(probe);
  if (error == ENOENT) return nullptr;
  if (error == EACCES) return plainly("somebody else's socket is there; choose another path");
  // Every other outcome shows a listener.
  if (error != ECONNREFUSED) {
    return plainly("another process serves it; let %p in the path make it this one's");
  }
  // Another process may have put its own there since it was found to be dead.
  if (folder < 0) {
    return plainly("the old socket there cannot be removed: its folder cannot be locked");
  }
  const bool removed = unlink(address.sun_path) == 0 || errno == ENOENT;
  return removed ? nullptr : "the old socket there cannot be removed";
}

// nullptr, or why nobody listens.
const char* listen_on(int file, int folder) {
  // The file gets the mode of its socket. So nobody can come before a chmod of the file.
  if (fchmod(file, 0600) != 0) return "its mode cannot be set";
  int error = call(bind, file);
  if (error == EADDRINUSE) {
    const char* const stays = remove_dead(folder);
    if (stays != nullptr) return stays;
    error = call(bind, file);
  }
  if (error != 0) return "it cannot be made there";
  const char* why = nullptr;
  if (lstat(address.sun_path, &made) != 0) {
    why = "its file cannot be found";
  } else if ((made.st_mode & 0077) != 0) {
    why = plainly("the system gives its file to others, too");
  } else if (listen(file, kBacklog) != 0) {
    why = "nobody can listen on it";
  }
  const KeepErrno keep;
  if (why != nullptr) unlink(address.sun_path);
  return why;
}

}  // namespace

int above_standard(int file) {
  if (file < 0 || file > STDERR_FILENO) return file;
  const int above = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(file);
  errno = error;
  return above;
}

int take_place(const char* path, Text* why) {
  memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  const int file = new_socket();
  // Of all that come to this folder one at a time looks what is there, and listens. So nobody takes
  // a socket for a dead one on which somebody is about to listen, and removes it.
  const int folder = file < 0 ? -1 : lock_folder();
  const char* const trouble = file < 0 ? "the system gives no socket" : listen_on(file, folder);
  if (trouble != nullptr) {
    *why = Text() << trouble;
    if (errno != 0) *why << ": " << strerror(errno);
  }
  if (folder >= 0) close(folder);
  if (trouble != nullptr) {
    if (file >= 0) close(file);
    return -1;
  }
  maker = getpid();
  is_there.store(1, memory_order_seq_cst);
  if (has_ended.load(memory_order_seq_cst) != 0) remove_place();
  return file;
}

void remove_place() {
  const KeepErrno keep;
  // The child of a fork has a copy of it, and a child by a bare clone may even have this memory.
  if (maker != getpid() || is_there.exchange(0, memory_order_seq_cst) == 0) return;
  struct stat found;
  // The program may have changed its folder or its root since: another file may have this path now.
  if (lstat(address.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  if (found.st_dev == made.st_dev && found.st_ino == made.st_ino) unlink(address.sun_path);
}

void leave_place() {
  has_ended.store(1, memory_order_seq_cst);
  remove_place();
}

}  // namespace loft::inspect
