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
  const char* seconds = getenv("LOFT_HOLD_SECONDS");
  // Processes that the command starts inherit the variables, and are not held.
  if (pid == nullptr || seconds == nullptr || atol(pid) != getpid()) return;
  const double wanted = atof(seconds);
  timespec left;
  left.tv_sec = static_cast<time_t>(wanted);
  left.tv_nsec = static_cast<long>((wanted - static_cast<double>(left.tv_sec)) * 1e9);
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace
