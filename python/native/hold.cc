// loft-hold.so: holds a process for a while at its end, for `loft compare --tail`, which preloads
// it behind the allocator while it watches memory. By then the program's own destructors have run
// and its other threads still do: what stays resident is what an idle process of this kind keeps.
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

namespace {

// Loaded after the allocator and initialised before it, so it is ended after the program and what
// the program links, with the allocator still whole.
__attribute__((destructor)) void hold() {
  const char* pid = getenv("LOFT_HOLD_PID");
  // A whole number, which reads the same in every locale that the program may have set.
  const char* milliseconds = getenv("LOFT_HOLD_MS");
  // Processes that the command starts inherit the variables, and are not held.
  if (pid == nullptr || milliseconds == nullptr || atol(pid) != getpid()) return;
  const long wanted = atol(milliseconds);
  timespec left;
  left.tv_sec = wanted / 1000;
  left.tv_nsec = wanted % 1000 * 1000000;
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace
