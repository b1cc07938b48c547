// loft-tell.so: writes loft's statistics to a file of their own when a process ends, for `loft
// compare --stats`, which preloads it behind loft. LOFT_STATS=json writes them to the standard
// error, where the program's own words stand too, and which a program may close or send elsewhere.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "loft/loft.h"

// There is none in a process without loft, such as one that has set LD_PRELOAD anew.
extern "C" decltype(loft_stats_write) loft_stats_write __attribute__((weak));

namespace {

// As in hold.cc: ended after the program and what the program links, with loft still whole.
__attribute__((destructor)) void tell() {
  const char* folder = secure_getenv("LOFT_TELL_FOLDER");
  if (folder == nullptr || loft_stats_write == nullptr) return;
  char path[512];
  const int length = snprintf(path, sizeof(path), "%s/%d", folder, static_cast<int>(getpid()));
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) return;
  // Two processes of one number are two lines.
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return;
  loft_stats_write(file, LOFT_STATS_JSON);
  close(file);
}

}  // namespace
