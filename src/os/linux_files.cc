// Files of a thread's own on Linux, which shares a table of files among threads that agree to it.
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/keep_errno.h"
#include "base/raw_file.h"
#include "os/os.h"

namespace loft::os {

namespace {

// No file of the calling thread has this number or a higher one. Where there is no /proc, the limit
// on files says so, if nobody has lowered it since.
long numbers_of_files() {
  constexpr char kName[] = "\nFDSize:\t";
  char text[512];
  const int status = raw::open_file("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  const long got = status < 0 ? 0 : raw::read_file(status, text, sizeof(text) - 1);
  if (status >= 0) raw::close_file(status);
  text[got > 0 ? got : 0] = 0;
  const char* const line = strstr(text, kName);
  if (line == nullptr) return sysconf(_SC_OPEN_MAX);
  long number = 0;
  for (const char* digit = line + sizeof(kName) - 1; *digit >= '0' && *digit <= '9'; ++digit)
    number = number * 10 + (*digit - '0');
  return number;
}

// What close_range does, on a kernel that lacks it: before 5.9. The copies of standard files are
// closed first, so that a full table has room.
bool leave_one_by_one() {
  if (syscall(SYS_unshare, CLONE_FILES) != 0) return false;
  constexpr int kStandard = 3;
  for (int file = 0; file < kStandard; ++file) raw::close_file(file);
  const long numbers = numbers_of_files();
  for (long file = kStandard; file < numbers; ++file) raw::close_file(static_cast<int>(file));
  return true;
}

}  // namespace

bool leave_files() {
  const KeepErrno keep;
  constexpr long kCloseRange = 436, kUnshare = 2;  // older headers lack the names
  if (syscall(kCloseRange, 0u, ~0u, kUnshare) == 0) return true;
  // A filter that refuses it otherwise may do worse to a call that it does not expect.
  return errno == ENOSYS && leave_one_by_one();
}

}  // namespace loft::os
