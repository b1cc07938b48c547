#include "inspect/new_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include <string_view>

#include "base/raw_file.h"

namespace loft::inspect {

namespace {

int folder_length(const char* path) {
  return static_cast<int>(std::string_view(path).rfind('/') + 1);  // 0 where there is none
}

bool fits(int length, size_t size) { return static_cast<size_t>(length) < size; }

}  // namespace

bool name_temporary(const char* path, char* result, size_t size) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  auto drawn = static_cast<unsigned long>(now.tv_nsec);  // where the system draws nothing
  syscall(SYS_getrandom, &drawn, sizeof(drawn), GRND_NONBLOCK);
  return fits(snprintf(result, size, "%.*s.loft-%016lx", folder_length(path), path, drawn), size);
}

bool name_beside(const char* path, const char* before, const char* word, char* result,
                 size_t size) {
  const std::string_view whole = path;
  size_t stem = whole.size();
  for (const std::string_view ending : {".pb.gz", ".pb", ".gz", ".collapsed"}) {
    if (!whole.ends_with(ending)) continue;
    stem -= ending.size();
    break;
  }
  const int folder = folder_length(path);
  return fits(snprintf(result, size, "%.*s%s%.*s%s%s%s", folder, path, before,
                       static_cast<int>(stem) - folder, path + folder, *word != 0 ? "." : "", word,
                       path + stem),
              size);
}

int NewFile::open(const char* path) {
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

int NewFile::close(int error) {
  raw::close_file(file_);
  if (error == 0 && raw::rename_file(temporary_, path_) != 0) error = errno;
  if (error != 0) raw::remove_file(temporary_);
  return error;
}

}  // namespace loft::inspect
