// The file of the socket: made, found to be an old one, removed. Its descriptors belong to a thread
// that has a table of files for itself (os::leave_files). All functions keep errno, except as they
// say.
#pragma once

#include <cstddef>

namespace loft::serve {

// Why there is no socket.
struct Trouble {
  const char* what = nullptr;   // nullptr: there is none
  int error = 0;                // the system's, or 0
  const char* where = nullptr;  // the path, once it is known
};

// The descriptor itself if it is above those that programs take for standard input, output and
// errors; or a copy that is, in its place. -1 for a descriptor below 0, or if the system refuses.
// So a line on standard error never lands in a socket.
int above_standard(int file);

// The place of the one socket that the process has.
class Place {
 public:
  // Makes a socket at `path`, with %p as in files::expand_path, and listens on it. The file has
  // mode 0600 from the beginning, and its name once somebody listens: nobody ever takes it for that
  // of a process that is gone. An old file stays unless it is a socket on which nobody listens.
  // Returns the descriptor, or -1 with the reason.
  int open(const char* path, Trouble& trouble);

  // Removes the file if it still is the one that was made. Any thread; the second call does
  // nothing.
  void remove();

  // In the child of a fork: the file is the parent's.
  void forget();

  // Where the socket is, after open.
  const char* path() const { return path_; }

 private:
  int listen_on(int file, Trouble& trouble);
  bool bind_beside(int file, char* temporary, Trouble& trouble);
  bool take_name(const char* temporary, Trouble& trouble);

  // As long as an address of this kind may be, with its NUL, and what the first name has more.
  static constexpr size_t kLongestAddress = 108;
  static constexpr size_t kAdded = 6;
  static constexpr size_t kLongestPath = kLongestAddress - kAdded;
  char path_[kLongestPath] = {};
  size_t device_ = 0;
  size_t number_ = 0;
  unsigned process_ = 0;  // that made it
  bool is_there_ = false;
};

}  // namespace loft::serve
