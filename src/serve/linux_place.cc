#include "serve/place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string_view>

#include "base/keep_errno.h"
#include "files/output.h"
#include "os/lock.h"

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

// Removes the file if it is the socket of a process that is gone.
bool remove_dead(const sockaddr_un& address, Trouble& trouble) {
  struct stat found;
  if (lstat(address.sun_path, &found) != 0) return errno == ENOENT;
  if (!S_ISSOCK(found.st_mode)) {
    trouble = {"a file that is no socket is there; remove it, or choose another path", 0};
    return false;
  }
  const int probe = new_socket();
  if (probe < 0) {
    trouble = {"the system gives no socket", errno};
    return false;
  }
  const int error = call(connect, probe, address);
  close(probe);
  // Every other outcome shows a listener, or one that may not be asked.
  if (error == ECONNREFUSED) return unlink(address.sun_path) == 0 || errno == ENOENT;
  trouble = {"another process serves it; let %p in the path make it this one's", 0};
  if (error == EACCES) trouble = {"somebody else's socket is there; choose another path", 0};
  return false;
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

bool Place::set_path(const char* path, bool is_inherited) {
  const bool names_process = std::string_view(path).find("%p") != std::string_view::npos;
  return files::expand_path(path, is_inherited && !names_process ? "%p-" : "", path_,
                            sizeof(path_));
}

int Place::open(const char* path, bool is_inherited, Trouble& trouble) {
  const KeepErrno keep;
  const os::Guard guard(place_lock);
  is_there_ = false;
  if (!set_path(path, is_inherited)) {
    return fail(-1, "the path is longer than the 107 bytes that an address may have", trouble, 0);
  }
  const int file = new_socket();
  const int listener =
      file < 0 ? fail(-1, "the system gives no socket", trouble, errno) : listen_on(file, trouble);
  trouble.where = path_;
  return listener;
}

int Place::listen_on(int file, Trouble& trouble) {
  // On Linux, the file gets the mode of its socket. So nobody can come before a chmod of the file.
  if (fchmod(file, 0600) != 0) return fail(file, "its mode cannot be set", trouble, errno);
  const sockaddr_un address = address_of(path_);
  int error = call(bind, file, address);
  if (error == EADDRINUSE) {
    if (!remove_dead(address, trouble)) {
      if (trouble.what == nullptr) trouble = {"the old socket there cannot be removed", errno};
      return fail(file, trouble.what, trouble, trouble.error);
    }
    error = call(bind, file, address);
  }
  if (error != 0) return fail(file, why(error), trouble, error);
  struct stat made;
  if (lstat(path_, &made) != 0) return fail(file, "its file cannot be found", trouble, errno);
  if ((made.st_mode & 0077) != 0) {
    unlink(path_);
    return fail(file, "the system gives its file to others, too", trouble, 0);
  }
  device_ = made.st_dev;
  number_ = made.st_ino;
  process_ = files::process_number();
  is_there_ = true;
  if (listen(file, kBacklog) != 0) return fail(file, "nobody can listen on it", trouble, errno);
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
