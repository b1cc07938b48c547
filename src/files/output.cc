#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <string_view>

#include "base/bits.h"
#include "base/keep.h"
#include "base/raw_file.h"
#include "base/text.h"
#include "os/os.h"

namespace loft::files {

namespace {

constexpr const char* kNotRegular = "it is no regular file";

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

bool expand_path(const char* path, char* result, size_t size) {
  const Text number = Text() << uint64_t{process_number()};
  size_t n = 0;
  for (const char* from = path; *from != 0; ++from) {
    std::string_view part(from, 1);
    if (from[0] == '%' && (from[1] == 'p' || from[1] == '%')) {
      if (*++from == 'p') part = {number.data(), number.size()};
    }
    if (n + part.size() >= size) {
      *result = 0;
      return false;
    }
    __builtin_memcpy(result + n, part.data(), part.size());
    n += part.size();
  }
  result[n] = 0;
  return true;
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

void* borrow(size_t bytes) {
  bytes = round_up(bytes, os::page_size());
  void* const memory = os::reserve(bytes);
  if (memory == nullptr || os::commit(memory, bytes)) return memory;
  os::unmap(memory, bytes);
  return nullptr;
}

void give_back(void* memory, size_t bytes) {
  if (memory != nullptr) os::unmap(memory, round_up(bytes, os::page_size()));
}

}  // namespace loft::files
