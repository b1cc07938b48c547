#include "files/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/keep.h"
#include "base/macros.h"
#include "base/raw_file.h"

namespace loft::files {

namespace {

// A filter of system calls answers with EPERM or ENOSYS, whether there is a file or not.
bool says_no_file(int error) {
  return error == ENOENT || error == ENOTDIR || error == EPERM || error == ENOSYS;
}

const char* why_not_opened(int error) {
  if (says_no_file(error)) return nullptr;
  if (error == ELOOP) return "it is a symbolic link";
  if (error == EACCES) return "permission denied";
  if (error == EMFILE || error == ENFILE) return "too many files are open";
  return error == ENXIO ? "it is no regular file" : "it cannot be opened";
}

const char* why_not_trusted(int file, unsigned owner) {
  struct stat found;
  if (raw::look_at_file(file, &found) != 0) return "the system does not say whose it is";
  if (!S_ISREG(found.st_mode)) return "it is no regular file";
  if (found.st_uid != owner) return owner == 0 ? "root does not own it" : "it has another owner";
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others than its owner may write to it";
  const bool is_long = found.st_size > static_cast<off_t>(kLongestTrusted);
  return is_long ? "it is longer than 64 KiB" : nullptr;
}

const char* visit_lines(int file, VisitTrusted visit, void* context) {
  char buffer[kLongestTrustedLine];
  size_t held = 0;  // bytes of a line whose end has not been read
  size_t total = 0;
  bool within = false;  // a line that is too long, and was visited
  uint64_t number = 1;
  for (;;) {
    const long got = raw::read_file(file, buffer + held, sizeof(buffer) - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return "it cannot be read to its end";
    total += static_cast<size_t>(got);
    if (total > kLongestTrusted) return "it is longer than 64 KiB";
    held += static_cast<size_t>(got);
    const char* line = buffer;
    const char* const end = buffer + held;
    while (const auto* const stop =
               static_cast<const char*>(memchr(line, '\n', static_cast<size_t>(end - line)))) {
      const auto size = static_cast<size_t>(stop - line);
      if (!within) visit(context, {{line, size}, number, true});
      within = false;
      ++number;
      line = stop + 1;
    }
    held = static_cast<size_t>(end - line);
    if (got == 0) {
      if (held != 0 && !within) visit(context, {{line, held}, number, true});
      return nullptr;
    }
    if (held == sizeof(buffer)) {
      if (!within) visit(context, {{line, held}, number, false});
      within = true;
      held = 0;
    }
    memmove(buffer, line, held);
  }
}

}  // namespace

LOFT_AT_LOAD const char* visit_trusted(const char* path, unsigned owner, VisitTrusted visit,
                                       void* context) {
  const KeepErrno keep;
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  int file = -1;
  do {
    file = raw::open_file(path, kFlags);
  } while (file < 0 && errno == EINTR);
  if (file < 0) return why_not_opened(errno);
  const char* trouble = why_not_trusted(file, owner);
  if (trouble == nullptr) trouble = visit_lines(file, visit, context);
  raw::close_file(file);
  return trouble;
}

}  // namespace loft::files
