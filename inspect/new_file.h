// A file that is written whole. Until it is closed it has a name of its own, in the same folder: so
// nobody reads a part of it, a file that had the name is as it was if writing fails, and no link
// there leads to another file.
#pragma once

#include <stddef.h>

namespace loft::inspect {

// The longest path of a file, with its NUL.
inline constexpr size_t kLongestPath = 4096;

// Too long for a stack: it lies in borrowed memory.
class NewFile {
 public:
  // Makes a file that becomes `path`, which stays meanwhile. Mode 0600: addresses are nobody else's
  // business. What has the name must be a regular file, or nothing: neither a device nor a queue is
  // replaced. 0, or an error of the system; EEXIST: it is no regular file.
  int open(const char* path);
  int file() const { return file_; }

  // Gives it its name, in place of the file that had it; or removes it after an `error` of whoever
  // wrote. Returns that, or an error of the system.
  int close(int error);

 private:
  const char* path_ = nullptr;
  int file_ = -1;
  char temporary_[kLongestPath];
};

// A name in the folder of `path` that no other file has: drawn by lot. False if it does not fit.
bool name_temporary(const char* path, char* result, size_t size);

// A path with `before` in front of the name of the file, and with a word in that, before an ending
// that tells its form, with a dot between: heap.pb.gz becomes BEFOREheap.WORD.pb.gz. False if it
// does not fit.
bool name_beside(const char* path, const char* before, const char* word, char* result, size_t size);

}  // namespace loft::inspect
