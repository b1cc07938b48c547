#include "serve/place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string_view>

#include "base/keep_errno.h"
#include "files/output.h"
#include "os/lock.h"
#include "os/os.h"

namespace loft::serve {

namespace {

// Calls that the system lets wait. More than these wait outside, by the system's rules.
constexpr int kBacklog = 32;

// Held while the file is made and removed.
constinit os::Lock place_lock;

int new_socket() {
  return above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int fail(int file, const char* what, Trouble& trouble, int error) {
  trouble = {what, error};
  if (file >= 0) close(file);
  return -1;
}

sockaddr_un address_of(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  static_assert(sizeof(address.sun_path) == 108);
  __builtin_memcpy(address.sun_path, path, __builtin_strlen(path));
  return address;
}

int call(int (*function)(int, const sockaddr*, socklen_t), int file, const sockaddr_un& address) {
  int result = 0;
  do {
    result = function(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

enum class Found { kNothing, kDead, kOther };

// What has the name of the socket. A dead one is that of a process that is gone.
Found look_at(const sockaddr_un& address, Trouble& trouble) {
  struct stat found;
  if (lstat(address.sun_path, &found) != 0) return Found::kNothing;
  if (!S_ISSOCK(found.st_mode)) {
    trouble = {"a file that is no socket is there; remove it, or choose another path", 0};
    return Found::kOther;
  }
  const int probe = new_socket();
  if (probe < 0) {
    trouble = {"the system gives no socket", errno};
    return Found::kOther;
  }
  const int error = call(connect, probe, address);
  close(probe);
  if (error == ECONNREFUSED) return Found::kDead;
  if (error == ENOENT) return Found::kNothing;
  // Every other outcome shows a listener, or one that may not be asked.
  trouble = {"another process serves it; let %p in the path make it this one's", 0};
  if (error == EACCES) trouble = {"somebody else's socket is there; choose another path", 0};
  return Found::kOther;
}

// Locks the folder of that path until the descriptor is closed. -1: it may not be read, or somebody
// holds it for longer than anybody needs.
int lock_folder(const char* path) {
  char folder[sizeof(sockaddr_un::sun_path)] = ".";
  const size_t length = std::string_view(path).rfind('/') + 1;
  if (length != 0) {
    __builtin_memcpy(folder, path, length);
    folder[length] = 0;
  }
  const int file = above_standard(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file < 0) return -1;
  constexpr int kTries = 100;
  constexpr int kPauseMs = 10;
  for (int i = 0; i < kTries; ++i) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    poll(nullptr, 0, kPauseMs);
  }
  close(file);
  return -1;
}

// Removes the socket of a process that is gone. Of all that find it dead one at a time looks once
// more and removes it, so that nobody removes what another one has put there since. False if
// something else is there.
bool remove_dead(const sockaddr_un& address, Trouble& trouble) {
  Found found = look_at(address, trouble);
  if (found != Found::kDead) return found == Found::kNothing;
  const int folder = lock_folder(address.sun_path);
  if (folder < 0) {
    trouble = {"the old socket there cannot be removed: its folder cannot be locked", errno};
    return false;
  }
  found = look_at(address, trouble);
  if (found == Found::kDead) {
    if (unlink(address.sun_path) == 0 || errno == ENOENT) {
      found = Found::kNothing;
    } else {
      trouble = {"the old socket there cannot be removed", errno};
    }
  }
  close(folder);
  return found == Found::kNothing;
}

const char* why(int error) {
  switch (error) {
    case ENOENT:
      return "its folder does not exist; make it first";
    case EACCES:
      return "nothing may be made in its folder; choose another one";
    case ENOTDIR:
      return "what should be its folder is none";
    case EROFS:
      return "its folder can only be read; choose another one";
    default:
      return "the system refuses the address";
  }
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

int Place::open(const char* path, Trouble& trouble) {
  const KeepErrno keep;
  const os::Guard guard(place_lock);
  is_there_ = false;
  if (!files::expand_path(path, "", path_, sizeof(path_))) {
    return fail(-1, "the path is longer than 101 bytes", trouble, 0);
  }
  const int file = new_socket();
  const int listener =
      file < 0 ? fail(-1, "the system gives no socket", trouble, errno) : listen_on(file, trouble);
  trouble.where = path_;
  return listener;
}

// The first name tells the later one: the system's table of sockets keeps the first
// (python/loft_malloc/live/find.py).
bool Place::bind_beside(int file, char* temporary, Trouble& trouble) {
  const size_t folder = std::string_view(path_).rfind('/') + 1;
  const size_t name = __builtin_strlen(path_) - folder;
  __builtin_memcpy(temporary, path_, folder);
  temporary[folder] = '.';
  __builtin_memcpy(temporary + folder + 1, path_ + folder, name);
  char* const digits = temporary + folder + 1 + name;
  constexpr int kTries = 100;
  int error = 0;
  for (int i = 0; i < kTries; ++i) {
    uint16_t drawn = 0;
    os::random_bytes(&drawn, sizeof(drawn));
    digits[0] = '~';
    for (int d = 1; d <= 4; ++d, drawn >>= 4) digits[d] = "0123456789abcdef"[drawn & 15];
    digits[5] = 0;
    error = call(bind, file, address_of(temporary));
    if (error != EADDRINUSE) break;
  }
  if (error != 0) trouble = {why(error), error};
  return error == 0;
}

bool Place::take_name(const char* temporary, Trouble& trouble) {
  const sockaddr_un address = address_of(path_);
  while (link(temporary, path_) != 0) {
    if (errno != EEXIST) {
      trouble = {why(errno), errno};
      return false;
    }
    if (!remove_dead(address, trouble)) return false;
  }
  return true;
}

int Place::listen_on(int file, Trouble& trouble) {
  // The file gets the mode of its socket. So nobody can come before a chmod of the file.
  if (fchmod(file, 0600) != 0) return fail(file, "its mode cannot be set", trouble, errno);
  char temporary[kLongestAddress];
  if (!bind_beside(file, temporary, trouble)) {
    return fail(file, trouble.what, trouble, trouble.error);
  }
  struct stat made;
  Trouble found;
  if (lstat(temporary, &made) != 0) {
    found = {"its file cannot be found", errno};
  } else if ((made.st_mode & 0077) != 0) {
    found = {"the system gives its file to others, too", 0};
  } else if (listen(file, kBacklog) != 0) {
    found = {"nobody can listen on it", errno};
  } else {
    is_there_ = take_name(temporary, found);
  }
  unlink(temporary);
  if (!is_there_) return fail(file, found.what, trouble, found.error);
  device_ = made.st_dev;
  number_ = made.st_ino;
  process_ = files::process_number();
  return file;
}

void Place::remove() {
  const KeepErrno keep;
  const os::Guard guard(place_lock);
  // A child by a bare clone knows nothing of forget, and may even have this memory.
  if (!is_there_ || process_ != files::process_number()) return;
  is_there_ = false;
  struct stat found;
  // The program may have changed its folder or its root since: another file may have this path now.
  if (lstat(path_, &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  if (found.st_dev == device_ && found.st_ino == number_) unlink(path_);
}

void Place::forget() {
  place_lock.reset();
  is_there_ = false;
}

}  // namespace loft::serve
